-- Whoever knows the id of a run may publish below it: where that one may not read it, neither do others see the unit, so
-- that it takes nobody's place here.
DROP FUNCTION IF EXISTS livebox.units_below(uuid[], bigint);
CREATE OR REPLACE FUNCTION livebox.units_below(p_principal uuid, p_runs uuid[], p_most bigint) RETURNS uuid[] LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    v_owner CONSTANT boolean := livebox.is_owner(p_principal);
    v_found uuid[];
    v_last  uuid[];
BEGIN
    -- One look into the index for each that is above, however many units there are.
    v_last := ARRAY(SELECT below.id FROM unnest(p_runs::text[]) AS above
                     CROSS JOIN LATERAL (
                           SELECT s.id, s.created_at FROM livebox.agent_snapshots s
                            WHERE s.parent IS NOT NULL AND "left"(s.parent, 36) = above AND s.parent ~ '^.{36}(:|$)'
                              AND (v_owner OR s.owner_id = p_principal OR s.parent_run_id IS NOT NULL)
                            ORDER BY s.created_at, s.id LIMIT p_most) AS below
                     ORDER BY below.created_at, below.id LIMIT p_most);
    v_found := v_last;
    WHILE cardinality(v_last) > 0 LOOP
        v_last := ARRAY(SELECT below.id FROM livebox.agent_snapshots above
                         CROSS JOIN LATERAL (
                               SELECT s.id, s.created_at FROM livebox.agent_snapshots s
                                WHERE s.parent = above.snapshot_id AND s.owner_id = above.owner_id AND s.id <> ALL (v_found)
                                  AND (v_owner OR s.owner_id = p_principal)
                                ORDER BY s.created_at, s.id LIMIT p_most) AS below
                         WHERE above.id = ANY (v_last)
                         ORDER BY below.created_at, below.id LIMIT p_most - cardinality(v_found));
        v_found := v_found || v_last;
    END LOOP;
    RETURN v_found;
END $$;
COMMENT ON FUNCTION livebox.units_below(uuid, uuid[], bigint) IS
    'Units that were published below these runs, which the principal may read, below units in their documents, or below one another, at most p_most: those that the principal may see.';
