-- name: replica_age
-- How many seconds what this server shows may be old: 0 for a primary, and for a replica that has replayed all it got
-- and still gets more; otherwise since the last transaction that it has seen.
select case
           when not pg_is_in_recovery() then 0
           when exists (select 1 from pg_stat_wal_receiver)
                and pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() then 0
           else coalesce(extract(epoch from now() - pg_last_xact_replay_timestamp()), 'infinity')
       end::float8;
