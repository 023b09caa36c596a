-- fragment: of_thread
-- A thread as it is listed. The newest checkpoint of the root namespace speaks for it.
select thread.thread_id, thread.last_activity, newest.metadata::text
  from {schema}.tier_threads as thread
  join {schema}.checkpoints as newest
    on newest.thread_id = thread.thread_id
   and newest.checkpoint_ns = ''
   and newest.checkpoint_id = (select max(one.checkpoint_id)
                                 from {schema}.checkpoints as one
                                where one.thread_id = thread.thread_id
                                  and one.checkpoint_ns = '')
 where thread.last_activity is not null
   and thread.thread_id <> all(%(skip)s::text[])
   and (%(filter)s::jsonb is null or newest.metadata @> %(filter)s::jsonb)
   and (thread.last_activity, thread.thread_id) < (%(moment)s::timestamptz, %(after)s::text)

-- name: list_threads
-- Archived threads, last written first, from a place in that order on.
{of_thread}
 order by thread.last_activity desc, thread.thread_id desc
 limit %(limit)s;

-- name: find_threads
-- The same for those whose labels say something. They are found first: they are few, however large the tables are.
with found as materialized (
    select thread_id
      from {schema}.tier_labels
     where metadata @> %(labels)s::jsonb)
{of_thread}
   and thread.thread_id in (select thread_id from found)
 order by thread.last_activity desc, thread.thread_id desc
 limit %(limit)s;

-- name: count_found
select count(*)
  from {schema}.tier_labels as label
  join {schema}.tier_threads as thread
    on thread.thread_id = label.thread_id
 where label.metadata @> %(labels)s::jsonb
   and thread.last_activity is not null
   and thread.thread_id <> all(%(skip)s::text[]);

-- name: measure_threads
-- How many checkpoints cold has of these threads, since when, and how many bytes they take there, without indexes.
select asked.thread_id,
       (select count(*)
          from {schema}.checkpoints as one
         where one.thread_id = asked.thread_id),
       (select {moment_of_checkpoint}
          from {schema}.checkpoints as checkpoint
         where checkpoint.thread_id = asked.thread_id
         order by checkpoint.checkpoint_id
         limit 1),
       coalesce((select sum(pg_column_size(one.checkpoint) + pg_column_size(one.metadata))
                   from {schema}.checkpoints as one
                  where one.thread_id = asked.thread_id), 0)::bigint
     + coalesce((select sum(pg_column_size(one.blob))
                   from {schema}.checkpoint_blobs as one
                  where one.thread_id = asked.thread_id), 0)::bigint
     + coalesce((select sum(pg_column_size(one.blob))
                   from {schema}.checkpoint_writes as one
                  where one.thread_id = asked.thread_id), 0)::bigint
  from unnest(%(thread_ids)s::text[]) as asked (thread_id);

-- name: those_in_cold
-- Which of these checkpoints of a thread are stored.
select checkpoint_ns, checkpoint_id
  from {schema}.checkpoints
 where thread_id = %(thread_id)s
   and checkpoint_id = any(%(ids)s::text[]);
