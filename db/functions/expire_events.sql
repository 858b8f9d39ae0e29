-- The guard on events lets rows go only at or below the floor, so the floor is raised first.
CREATE OR REPLACE FUNCTION livebox.expire_events(p_seconds double precision, p_chunk bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_floor   bigint;
    v_removed bigint;
BEGIN
    SELECT max(e.seq) FILTER (WHERE e.expired) INTO v_floor
      FROM (SELECT e.seq, bool_and(e.at < livebox.clock() - make_interval(secs => p_seconds)) OVER (ORDER BY e.seq) AS expired
              FROM (SELECT e.seq, e.at FROM livebox.events e ORDER BY e.seq LIMIT p_chunk) AS e) AS e;
    IF v_floor IS NULL THEN
        RETURN 0;
    END IF;
    UPDATE livebox.log_state s SET floor = v_floor WHERE s.floor < v_floor;
    DELETE FROM livebox.events e WHERE e.seq <= v_floor;
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    RETURN v_removed;
END $$;
COMMENT ON FUNCTION livebox.expire_events(double precision, bigint) IS
    'Removes the oldest events that are older than so many seconds, at most p_chunk, and raises the floor of the log in the same transaction. Gives how many went.';
