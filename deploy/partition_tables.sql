-- Make the three tables of the stock saver hash-partitioned by thread_id, with the same names, columns, keys, indexes, owner
-- and rights. The stock saver, this library and a plain `select` use them as before; vacuum and reindex then work on parts.
--
--     psql "$TIER_POSTGRES_URL" -v ON_ERROR_STOP=1 -c "set search_path to public; set tier.partitions to 32" \
--          -f deploy/partition_tables.sql
--
-- One transaction: it happens whole or not at all, and again is a no-op. Nobody can use the tables meanwhile, so stop the
-- workers first; agents go on with what is hot. It needs as much free disk as the tables take, and a minute for each GB (0.8 GB
-- measured on two busy cores). Back: pg_dump --data-only, drop the three tables and checkpoint_migrations, setup(), load.
begin;

set local lock_timeout = '10s';
lock table checkpoints, checkpoint_blobs, checkpoint_writes in access exclusive mode;

do $$
declare
    parts constant integer := coalesce(nullif(current_setting('tier.partitions', true), ''), '32')::integer;
    place constant text := current_schema();
    table_name text;
    old pg_class;
    keys text[];
    indexes text[];
    grants text[];
    statement text;
begin
    foreach table_name in array array['checkpoints', 'checkpoint_blobs', 'checkpoint_writes'] loop
        select * into strict old from pg_class where oid = format('%I.%I', place, table_name)::regclass;
        continue when old.relkind = 'p';
        select array_agg(format('alter table %I.%I add constraint %I %s', place, table_name, conname,
                                pg_get_constraintdef(oid)))
          into keys
          from pg_constraint
         where conrelid = old.oid
           and contype in ('p', 'u', 'c');
        select coalesce(array_agg(pg_get_indexdef(indexrelid)), '{}')
          into indexes
          from pg_index
         where indrelid = old.oid
           and not exists (select 1 from pg_constraint where conindid = indexrelid);
        select coalesce(array_agg(format('grant %s on %I.%I to %s', privilege_type, place, table_name,
                                         case grantee when 0 then 'public' else grantee::regrole::text end)), '{}')
          into grants
          from aclexplode(old.relacl);
        execute format('alter table %I.%I rename to %I', place, table_name, table_name || '_whole');
        execute format('create table %I.%I (like %I.%I including defaults including storage) partition by hash (thread_id)',
                       place, table_name, place, table_name || '_whole');
        for part in 0 .. parts - 1 loop
            execute format('create table %I.%I partition of %I.%I for values with (modulus %s, remainder %s)',
                           place, table_name || '_' || part, place, table_name, parts, part);
            execute format('alter table %I.%I owner to %s', place, table_name || '_' || part, old.relowner::regrole);
        end loop;
        execute format('insert into %I.%I select * from %I.%I', place, table_name, place, table_name || '_whole');
        execute format('drop table %I.%I', place, table_name || '_whole');
        execute format('alter table %I.%I owner to %s', place, table_name, old.relowner::regrole);
        foreach statement in array keys || indexes || grants loop
            execute statement;
        end loop;
    end loop;
end $$;

commit;

analyze checkpoints, checkpoint_blobs, checkpoint_writes;
