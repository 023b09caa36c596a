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
-- Tables with their indexes and what lies outside of the rows.
select coalesce(sum(pg_total_relation_size(class.oid)), 0)::bigint
  from pg_class as class
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
 where namespace.nspname = %(schema)s
   and class.relname in ('checkpoints', 'checkpoint_blobs', 'checkpoint_writes', 'tier_threads');
