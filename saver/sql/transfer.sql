-- name: read_thread
-- All rows of a thread, also blobs that nothing refers to and writes of checkpoints that are not stored.
select 'c', thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint::text, metadata::text,
       null::text, 0, null::bytea
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
union all
select 'b', thread_id, checkpoint_ns, '', channel, version, type, null, 0, blob
  from {schema}.checkpoint_blobs
 where thread_id = %(thread_id)s
union all
select 'w', thread_id, checkpoint_ns, checkpoint_id, task_id, task_path, channel, type, idx, blob
  from {schema}.checkpoint_writes
 where thread_id = %(thread_id)s;

-- name: note_arrived
-- A thread that came in is as new as this moment. Its incarnation stays: it tells the ghosts of what stood there before.
insert into {schema}.tier_threads (thread_id, incarnation, position, last_activity, head)
select %(thread_id)s, 0, 0, now(), max(checkpoint_id) filter (where checkpoint_ns = '')
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
having count(*) > 0
    on conflict (thread_id) do update
   set last_activity = excluded.last_activity,
       head = excluded.head;

-- name: all_threads
-- Thread ids by walking the index, so that a page costs the same however many checkpoints there are.
with recursive walk as (
    (select first.thread_id
       from {schema}.checkpoints as first
      where first.thread_id > %(after)s
      order by first.thread_id
      limit 1)
     union all
    select (select next.thread_id
              from {schema}.checkpoints as next
             where next.thread_id > walk.thread_id
             order by next.thread_id
             limit 1)
      from walk
     where walk.thread_id is not null)
select thread_id
  from walk
 where thread_id is not null
 limit %(limit)s;

-- name: labelled_threads
select thread_id
  from {schema}.tier_labels
 where metadata @> %(labels)s::jsonb
   and thread_id > %(after)s
 order by thread_id
 limit %(limit)s;
