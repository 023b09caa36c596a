-- name: list_threads
-- Archived threads, last written first. The newest checkpoint of the root namespace speaks for its thread.
select thread.thread_id, thread.last_activity, newest.metadata::text,
       (select count(*)
          from {schema}.checkpoints as one
         where one.thread_id = thread.thread_id)
  from {schema}.tier_threads as thread
 cross join lateral (select metadata
                       from {schema}.checkpoints as one
                      where one.thread_id = thread.thread_id
                        and one.checkpoint_ns = ''
                      order by one.checkpoint_id desc
                      limit 1) as newest
 where thread.last_activity is not null
   and thread.thread_id <> all(%(skip)s::text[])
   and (%(filter)s::jsonb is null or newest.metadata @> %(filter)s::jsonb)
 order by thread.last_activity desc
 limit %(limit)s;

-- name: count_others
-- How many checkpoints of a thread cold has beside those that hot has.
select count(*)
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
   and (checkpoint_ns, checkpoint_id) not in (select *
                                                from unnest(%(namespaces)s::text[], %(checkpoint_ids)s::text[]));
