-- Level by level, so that what is left out of a tree that is too large does not depend on a plan, nor on what is registered
-- later. Below a run that the principal may not read nothing is looked for: what hangs there is not theirs to count.
DROP FUNCTION IF EXISTS livebox.run_tree(uuid, uuid, bigint);
CREATE OR REPLACE FUNCTION livebox.run_tree(p_principal uuid, p_run uuid, p_most bigint) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_owner CONSTANT boolean := livebox.is_owner(p_principal);
    v_last  uuid[] := ARRAY[p_run];
    v_room  bigint := p_most;
BEGIN
    WHILE cardinality(v_last) > 0 LOOP
        RETURN QUERY SELECT unnest(v_last);
        v_room := v_room - cardinality(v_last);
        EXIT WHEN v_room <= 0;
        v_last := ARRAY(SELECT below.id FROM unnest(v_last) AS above
                         CROSS JOIN LATERAL (
                               SELECT r.id, r.queued_at FROM livebox.runs r
                                WHERE r.parent_run_id = above AND (v_owner OR livebox.run_names(r, p_principal))
                                ORDER BY r.queued_at, r.id LIMIT v_room) AS below
                         WHERE livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', below.id)) IS NULL
                         ORDER BY below.queued_at, below.id LIMIT v_room);
    END LOOP;
END $$;
COMMENT ON FUNCTION livebox.run_tree(uuid, uuid, bigint) IS
    'A run and the runs registered below it that a principal may read, nearest first and then oldest first, at most p_most. The run itself is not asked for.';
