-- Values are compressed by lz4 where the server has it: a fraction of the time that its default takes. Tables of this kind
-- grow for ever and lose whole threads at once: a fifth of them is too much to wait for with a vacuum. Done only where it
-- is allowed and nobody is held up for long; elsewhere tier doctor names the statements.
do $$
declare
    has_lz4 boolean := exists (select 1
                                 from pg_settings
                                where name = 'default_toast_compression'
                                  and 'lz4' = any(enumvals));
    waited text := current_setting('lock_timeout');
    owned record;
begin
    perform set_config('lock_timeout', '500ms', true);
    for owned in
        select relation.oid::regclass as name,
               array(select format('alter column %I set compression lz4', attribute.attname)
                       from pg_attribute as attribute
                      where attribute.attrelid = relation.oid
                        and attribute.attname in ('blob', 'checkpoint', 'metadata')
                        and has_lz4) as columns,
               exists (select 1
                         from unnest(relation.reloptions) as option
                        where option like 'autovacuum_vacuum_scale_factor=%') as is_tuned
          from pg_class as relation
         where relation.oid in ('checkpoints'::regclass, 'checkpoint_blobs'::regclass, 'checkpoint_writes'::regclass,
                                'tier_threads'::regclass, 'tier_labels'::regclass)
           and relation.relkind = 'r'
           and pg_has_role(relation.relowner, 'usage')
    loop
        begin
            if not owned.is_tuned then
                execute format(
                    'alter table %s set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02)',
                    owned.name);
            end if;
            if owned.columns <> '{}' then
                execute format('alter table %s %s', owned.name, array_to_string(owned.columns, ', '));
            end if;
        exception
            when lock_not_available then null;
        end;
    end loop;
    perform set_config('lock_timeout', waited, true);
end $$;
