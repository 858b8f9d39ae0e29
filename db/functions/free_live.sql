-- What a dead process owned is lifted to what it had reserved, whether or not somebody comes to take it: until then
-- readers would see a version below one that its devices have seen.
CREATE OR REPLACE FUNCTION livebox.free_live(p_dead text[], p_lease double precision, p_limit bigint) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_dead text[] := ARRAY(SELECT o.owner FROM livebox.live_owners o
                            WHERE o.owner = ANY (p_dead) OR o.seen_at < livebox.clock() - make_interval(secs => p_lease));
BEGIN
    RETURN QUERY
    UPDATE livebox.runs r
       SET live_owner = NULL, live_epoch = r.live_epoch + 1, version = r.version_reserved
     WHERE r.id IN (SELECT d.id FROM livebox.runs d
                     WHERE d.live_owner = ANY (v_dead) AND d.state IN ('queued', 'running', 'waiting_input')
                     ORDER BY d.id LIMIT p_limit
                       FOR NO KEY UPDATE SKIP LOCKED)
    RETURNING r.id;
    DELETE FROM livebox.live_owners o
     WHERE o.owner = ANY (v_dead)
       AND NOT EXISTS (SELECT FROM livebox.runs r
                        WHERE r.live_owner = o.owner AND r.state IN ('queued', 'running', 'waiting_input'));
END $$;
COMMENT ON FUNCTION livebox.free_live(text[], double precision, bigint) IS
    'Frees live documents, so many at most, of processes that are known to be dead (p_dead) or were not seen for p_lease seconds, and lifts their versions to what was reserved. Gives the runs.';
