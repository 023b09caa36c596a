-- delete_for_runs finds its checkpoints by this. A hash, so that a run id may have any length; a checkpoint without one
-- takes no entry. Built here only where that is quick and allowed, as it holds up writes meanwhile; elsewhere tier doctor
-- names the statement that does not.
do $$
begin
    if (select pg_relation_size(oid) < 64 * 1024 * 1024 and pg_has_role(relowner, 'usage')
          from pg_class
         where oid = 'checkpoints'::regclass) then
        create index if not exists checkpoints_run_id on checkpoints using hash ((metadata ->> 'run_id'));
    end if;
end $$;
