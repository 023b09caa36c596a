-- name: doctor_server
-- What this server is and how much of it is in use. The clock is read last, close to the reply.
select current_setting('server_version') as version,
       current_setting('server_version_num')::int as version_number,
       current_user as username,
       pg_is_in_recovery() as is_standby,
       current_setting('transaction_read_only') = 'on' as is_read_only,
       current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on' as is_crash_safe,
       current_setting('synchronous_commit') <> 'off' as waits_for_commit,
       current_setting('max_connections')::int
           - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) as most_connections,
       (select count(*) from pg_stat_activity where backend_type = 'client backend')::int as connections,
       pg_backend_pid() as process_id;

-- name: doctor_clock
select extract(epoch from clock_timestamp())::float8 as seconds;

-- name: doctor_schema
select exists (select 1 from pg_namespace where nspname = %(schema)s) as is_there,
       case when to_regnamespace(quote_ident(%(schema)s)) is not null
            then has_schema_privilege(quote_ident(%(schema)s), 'usage')
            else false end as may_use,
       case when to_regnamespace(quote_ident(%(schema)s)) is not null
            then has_schema_privilege(quote_ident(%(schema)s), 'create')
            else has_database_privilege(current_database(), 'create') end as may_create;

-- name: doctor_tables
-- The tables of the stock saver and ours that are there, and what this user may not do with them.
select class.relname as name,
       array(select privilege
               from unnest(array['select', 'insert', 'update', 'delete']) as privilege
              where not has_table_privilege(class.oid, privilege)) as missing
  from pg_class as class
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
 where namespace.nspname = %(schema)s
   and class.relkind in ('r', 'p')
   and class.relname = any(%(tables)s::text[]);

-- name: doctor_sequence
select has_sequence_privilege(class.oid, 'usage') as may_use
  from pg_class as class
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
 where namespace.nspname = %(schema)s
   and class.relname = 'tier_incarnation';

-- name: doctor_versions
select (select max(v) from {schema}.checkpoint_migrations) as stock,
       (select max(v) from {schema}.tier_migrations) as own;

-- name: doctor_indexes
-- Which column each usable index of these tables begins with. One that a failed concurrent build left is not usable.
select class.relname as name, attribute.attname as first_column, index.indisunique as is_unique
  from pg_index as index
  join pg_class as class
    on class.oid = index.indrelid
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
  join pg_attribute as attribute
    on attribute.attrelid = class.oid
   and attribute.attnum = index.indkey[0]
 where namespace.nspname = %(schema)s
   and class.relname = any(%(tables)s::text[])
   and index.indisvalid;

-- name: doctor_run_index
-- The condition of delete_for_runs, and whether there is a usable index for it.
select exists (select 1
                 from pg_index as index
                where index.indrelid = class.oid
                  and index.indisvalid
                  and pg_get_indexdef(index.indexrelid, 1, true) = '(metadata ->> ''run_id''::text)') as is_there
  from pg_class as class
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
 where namespace.nspname = %(schema)s
   and class.relname = 'checkpoints';

-- name: doctor_storage
-- Whether vacuum is told to come early, and which columns the server does not compress by lz4 though it could. A column
-- without a word of its own follows the server. PostgreSQL 13 has no such thing.
select class.relname as name,
       exists (select 1
                 from unnest(class.reloptions) as option
                where option like 'autovacuum_vacuum_scale_factor=%%') as is_tuned,
       array(select attribute.attname::text
               from pg_attribute as attribute
              where attribute.attrelid = class.oid
                and attribute.attname in ('blob', 'checkpoint', 'metadata')
                and setting.has_lz4
                and coalesce(nullif(to_jsonb(attribute) ->> 'attcompression', ''), setting.by_default) <> 'l') as slow
  from pg_class as class
  join pg_namespace as namespace
    on namespace.oid = class.relnamespace
 cross join (select coalesce(bool_or('lz4' = any(enumvals)), false) as has_lz4, coalesce(left(max(setting), 1), '') as by_default
               from pg_settings
              where name = 'default_toast_compression') as setting
 where namespace.nspname = %(schema)s
   and class.relkind = 'r'
   and class.relname = any(%(tables)s::text[]);

-- name: doctor_standbys
-- What a standby has on its disk survives a failover to it, replayed or not. Its delay is measured when it replies, so a
-- silent one is told by what it lacks and since when. Columns of others are null for a user without pg_monitor.
select state,
       coalesce(extract(epoch from flush_lag), 0)::float8 as lag_seconds,
       coalesce(extract(epoch from clock_timestamp() - reply_time), 0)::float8 as silent_seconds,
       coalesce(pg_wal_lsn_diff(here.lsn, flush_lsn), 0)::bigint as missing_bytes
  from pg_stat_replication
 cross join (select case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end as lsn)
       as here;
