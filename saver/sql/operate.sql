-- name: outline
-- What cold has of one thread by namespace, in numbers and stored bytes, never content.
select checkpoint_ns,
       count(*) filter (where kind = 'c') as checkpoints,
       count(*) filter (where kind = 'b') as blobs,
       count(*) filter (where kind = 'w') as writes,
       coalesce(sum(size_bytes), 0)::bigint as size_bytes,
       max(checkpoint_id) filter (where kind = 'c') as newest
  from (select 'c' as kind, checkpoint_ns, checkpoint_id,
               pg_column_size(checkpoint) + pg_column_size(metadata) as size_bytes
          from {schema}.checkpoints
         where thread_id = %(thread_id)s
         union all
        select 'b', checkpoint_ns, null, pg_column_size(blob)
          from {schema}.checkpoint_blobs
         where thread_id = %(thread_id)s
         union all
        select 'w', checkpoint_ns, checkpoint_id, pg_column_size(blob)
          from {schema}.checkpoint_writes
         where thread_id = %(thread_id)s) as part
 group by checkpoint_ns
 order by checkpoint_ns;

-- name: tier_row
select incarnation, position, last_activity
  from {schema}.tier_threads
 where thread_id = %(thread_id)s;

-- name: cold_bytes
-- Tables with their indexes and what lies outside of the rows; of a partitioned table all parts.
select coalesce(sum(pg_total_relation_size(part.relid)), 0)::bigint
  from pg_class as class
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
 cross join lateral (select class.oid::regclass as relid
                      union
                     select tree.relid from pg_partition_tree(class.oid) as tree) as part
 where namespace.nspname = %(schema)s
   and class.relname in ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'tier_threads', 'tier_labels');

-- name: count_strays
-- Threads that only the stock saver wrote and no retention run has seen yet.
select count(*)
  from (select distinct thread_id
          from {schema}.checkpoints as stray
         where not exists (select 1
                             from {schema}.tier_threads as known
                            where known.thread_id = stray.thread_id
                              and known.last_activity is not null)) as strays;

-- name: size_of_threads
-- Stored bytes of the rows of these threads, without indexes.
select coalesce((select sum(pg_column_size(one.*))
                   from {schema}.checkpoints as one
                  where one.thread_id = any(%(thread_ids)s::text[])), 0)::bigint
     + coalesce((select sum(pg_column_size(one.*))
                   from {schema}.checkpoint_blobs as one
                  where one.thread_id = any(%(thread_ids)s::text[])), 0)::bigint
     + coalesce((select sum(pg_column_size(one.*))
                   from {schema}.checkpoint_writes as one
                  where one.thread_id = any(%(thread_ids)s::text[])), 0)::bigint;

-- name: rows_between
-- The checkpoints of one namespace from one id on, before another one, with all their blobs and writes.
with head as materialized (
    select thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, checkpoint, metadata
      from {schema}.checkpoints
     where thread_id = %(thread_id)s
       and checkpoint_ns = %(namespace)s
       and checkpoint_id >= %(first)s
       and (%(before)s::text is null or checkpoint_id < %(before)s)
     order by checkpoint_id desc)
{rows_of_head};
