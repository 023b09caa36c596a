-- fragment: step_keys
-- Keys of a checkpoint's metadata that change with every step: no thread is found by them. As in migration 2.
'{source,step,parents,writes,run_id,counters_since_delta_snapshot,delta_writes_versioned}'::text[]

-- name: label
-- What the newest checkpoints say of these threads, where that is news. Comes after their tier rows.
insert into {schema}.tier_labels as old (thread_id, metadata)
select known.thread_id, newest.metadata - {step_keys}
  from {schema}.tier_threads as known
  join {schema}.checkpoints as newest
    on newest.thread_id = known.thread_id
   and newest.checkpoint_ns = ''
   and newest.checkpoint_id = known.head
 where known.thread_id = any(%(thread_ids)s::text[])
    on conflict (thread_id) do update
   set metadata = excluded.metadata
 where old.metadata <> excluded.metadata;

-- name: delete_labels
delete from {schema}.tier_labels where thread_id = any(%(thread_ids)s::text[]);

-- name: settle_labels
-- After checkpoints were deleted: what is left says it, or nothing.
delete from {schema}.tier_labels as label
 where label.thread_id = %(thread_id)s
   and not exists (select 1
                     from {schema}.tier_threads as known
                    where known.thread_id = label.thread_id
                      and known.head is not null);
