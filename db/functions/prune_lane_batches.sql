CREATE OR REPLACE FUNCTION livebox.prune_lane_batches(older_than double precision) RETURNS bigint
LANGUAGE sql VOLATILE AS $$
    WITH removed AS (
        DELETE FROM livebox.lane_batches
         WHERE created_at < livebox.clock() - make_interval(secs => greatest(older_than, 60))
        RETURNING 1
    )
    SELECT count(*) FROM removed
$$;
COMMENT ON FUNCTION livebox.prune_lane_batches(double precision) IS
    'Removes the records of batches older than so many seconds, never those of the last minute: a lane may still ask for them. Says how many.';
