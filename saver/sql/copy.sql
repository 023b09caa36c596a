-- name: copy_thread_blobs
insert into {schema}.checkpoint_blobs (thread_id, checkpoint_ns, channel, version, type, blob)
select %(target)s, checkpoint_ns, channel, version, type, blob
  from {schema}.checkpoint_blobs
 where thread_id = %(source)s
    on conflict do nothing;

-- name: copy_thread_writes
insert into {schema}.checkpoint_writes as old
       (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, blob)
select %(target)s, checkpoint_ns, checkpoint_id, task_id, idx, task_path, channel, type, blob
  from {schema}.checkpoint_writes
 where thread_id = %(source)s
    on conflict (thread_id, checkpoint_ns, checkpoint_id, task_id, idx) do update
   set channel = excluded.channel,
       type = excluded.type,
       blob = excluded.blob,
       task_path = excluded.task_path
 where old.idx < 0;

-- name: copy_thread_checkpoints
insert into {schema}.checkpoints
       (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)
select %(target)s, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata
  from {schema}.checkpoints
 where thread_id = %(source)s
    on conflict (thread_id, checkpoint_ns, checkpoint_id) do update
   set parent_checkpoint_id = excluded.parent_checkpoint_id,
       checkpoint = excluded.checkpoint,
       metadata = excluded.metadata;

-- name: copy_thread_tier_row
-- The copy is as new as this moment. Its incarnation stays: it tells the ghosts of what stood there before.
insert into {schema}.tier_threads (thread_id, incarnation, position, last_activity, head)
select %(target)s, 0, 0, now(), max(checkpoint_id) filter (where checkpoint_ns = '')
  from {schema}.checkpoints
 where thread_id = %(target)s
   and exists (select 1 from {schema}.checkpoints where thread_id = %(source)s)
having count(*) > 0
    on conflict (thread_id) do update
   set last_activity = excluded.last_activity,
       head = excluded.head;
