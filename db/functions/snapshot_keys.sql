-- One statement for each way to ask, and a limit for each side of it, so that each is read by the index of its order.
-- Planned for the values of each call: how many units are of a source, or below a parent, is not alike for all. The row
-- at the place itself is given too: whether it is done with is for who asks.
CREATE OR REPLACE FUNCTION livebox.snapshot_keys(p_filter jsonb, p_runs uuid[], p_units uuid[], p_time timestamptz, p_id uuid)
RETURNS TABLE (at timestamptz, id uuid, is_run boolean) LANGUAGE plpgsql STABLE SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    v_parent text := p_filter->>'parent';
    v_run    uuid := CASE WHEN v_parent ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:|$)' THEN left(v_parent, 36)::uuid END;
    v_source text := p_filter->>'source';
BEGIN
    IF p_runs IS NOT NULL THEN
        RETURN QUERY
        WITH picked AS MATERIALIZED (
            SELECT r.queued_at AS at, r.id, true AS is_run FROM livebox.runs r WHERE r.id = ANY (p_runs)
            UNION ALL
            SELECT s.created_at, s.id, false FROM livebox.agent_snapshots s WHERE s.id = ANY (p_units))
        SELECT p.at, p.id, p.is_run FROM picked p
         WHERE (p.at, p.id) <= (p_time, p_id) ORDER BY p.at DESC, p.id DESC LIMIT 100;
    ELSIF v_parent IS NOT NULL THEN
        RETURN QUERY
        (SELECT r.queued_at, r.id, true FROM livebox.runs r
          WHERE r.id = v_run AND (r.queued_at, r.id) <= (p_time, p_id)
          ORDER BY r.queued_at DESC, r.id DESC LIMIT 100)
        UNION ALL
        (SELECT r.queued_at, r.id, true FROM livebox.runs r
          WHERE r.parent_run_id = v_run AND v_parent = v_run::text AND (r.queued_at, r.id) <= (p_time, p_id)
          ORDER BY r.queued_at DESC, r.id DESC LIMIT 100)
        UNION ALL
        (SELECT s.created_at, s.id, false FROM livebox.agent_snapshots s
          WHERE s.parent = v_parent AND (s.created_at, s.id) <= (p_time, p_id)
          ORDER BY s.created_at DESC, s.id DESC LIMIT 100)
        ORDER BY 1 DESC, 2 DESC LIMIT 100;
    ELSIF v_source = 'fleet' AND p_filter->'active' IS DISTINCT FROM 'true' THEN
        RETURN QUERY
        (SELECT r.queued_at, r.id, true FROM livebox.runs r
          WHERE r.thread_id IS NULL AND (r.queued_at, r.id) <= (p_time, p_id)
          ORDER BY r.queued_at DESC, r.id DESC LIMIT 100)
        UNION ALL
        (SELECT s.created_at, s.id, false FROM livebox.agent_snapshots s
          WHERE s.source = v_source AND (s.created_at, s.id) <= (p_time, p_id)
          ORDER BY s.created_at DESC, s.id DESC LIMIT 100)
        ORDER BY 1 DESC, 2 DESC LIMIT 100;
    ELSIF p_filter->'active' = 'true' THEN
        RETURN QUERY
        (SELECT r.queued_at, r.id, true FROM livebox.runs r
          WHERE r.state IN ('queued', 'running', 'waiting_input') AND (r.queued_at, r.id) <= (p_time, p_id)
          ORDER BY r.queued_at DESC, r.id DESC LIMIT 100)
        UNION ALL
        (SELECT s.created_at, s.id, false FROM livebox.agent_snapshots s
          WHERE NOT s.ended AND (s.created_at, s.id) <= (p_time, p_id)
          ORDER BY s.created_at DESC, s.id DESC LIMIT 100)
        ORDER BY 1 DESC, 2 DESC LIMIT 100;
    ELSE
        RETURN QUERY
        (SELECT r.queued_at, r.id, true FROM livebox.runs r
          WHERE r.trigger_kind <> 'registration' AND (r.queued_at, r.id) <= (p_time, p_id)
          ORDER BY r.queued_at DESC, r.id DESC LIMIT 100)
        UNION ALL
        (SELECT r.queued_at, r.id, true FROM livebox.runs r
          WHERE r.thread_id IS NULL AND v_source IS DISTINCT FROM 'task' AND (r.queued_at, r.id) <= (p_time, p_id)
          ORDER BY r.queued_at DESC, r.id DESC LIMIT 100)
        UNION ALL
        (SELECT s.created_at, s.id, false FROM livebox.agent_snapshots s
          WHERE v_source IS NULL AND (s.created_at, s.id) <= (p_time, p_id)
          ORDER BY s.created_at DESC, s.id DESC LIMIT 100)
        UNION ALL
        (SELECT s.created_at, s.id, false FROM livebox.agent_snapshots s
          WHERE s.source = v_source AND (s.created_at, s.id) <= (p_time, p_id)
          ORDER BY s.created_at DESC, s.id DESC LIMIT 100)
        ORDER BY 1 DESC, 2 DESC LIMIT 100;
    END IF;
END $$;
COMMENT ON FUNCTION livebox.snapshot_keys(jsonb, uuid[], uuid[], timestamptz, uuid) IS
    'The next hundred runs and published units from a place on, newest first: all, those that a filter (source, active, parent) may concern, or the ones of a tree (p_runs, p_units). Without rights.';
