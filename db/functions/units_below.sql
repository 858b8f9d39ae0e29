CREATE OR REPLACE FUNCTION livebox.units_below(p_runs uuid[], p_most bigint) RETURNS uuid[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_found uuid[];
    v_last  uuid[];
BEGIN
    v_last := ARRAY(SELECT s.id FROM livebox.agent_snapshots s
                     WHERE s.parent IS NOT NULL AND "left"(s.parent, 36) = ANY (p_runs::text[]) AND s.parent ~ '^.{36}(:|$)'
                     ORDER BY s.created_at, s.id LIMIT p_most);
    v_found := v_last;
    WHILE cardinality(v_last) > 0 LOOP
        v_last := ARRAY(SELECT s.id FROM livebox.agent_snapshots above
                          JOIN livebox.agent_snapshots s ON s.parent = above.snapshot_id AND s.owner_id = above.owner_id
                         WHERE above.id = ANY (v_last) AND s.id <> ALL (v_found)
                         ORDER BY s.created_at, s.id LIMIT p_most - cardinality(v_found));
        v_found := v_found || v_last;
    END LOOP;
    RETURN v_found;
END $$;
COMMENT ON FUNCTION livebox.units_below(uuid[], bigint) IS
    'Units that were published below these runs, below units in their documents, or below one another, at most p_most. Without rights.';
