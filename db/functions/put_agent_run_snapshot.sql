CREATE OR REPLACE FUNCTION livebox.put_agent_run_snapshot(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_me      uuid := livebox.caller_id(p_caller);
    v_durable jsonb := p_args->'body'->'snapshot';
    v_parent  text := v_durable->>'parent';
    v_ended   boolean := v_durable->>'state' = 'terminal';
    v_live    jsonb := CASE WHEN NOT v_ended THEN p_args->'body'->'live' END;
    v_denial  text := livebox.authorize(v_me, 'unit.publish', '{}');
    v_run     uuid;
    v_unit    livebox.agent_snapshots;
BEGIN
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    SELECT * INTO v_unit FROM livebox.agent_snapshots s
     WHERE s.owner_id = v_me AND s.snapshot_id = p_args->>'snapshot_id' FOR NO KEY UPDATE;
    IF v_unit.ended THEN
        RETURN CASE WHEN v_unit.durable = v_durable THEN livebox.done('ok', livebox.unit_record(v_unit))
                    ELSE livebox.refused('snapshot_terminal') END;
    END IF;
    IF v_parent ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
       AND livebox.authorize(v_me, 'run.read', jsonb_build_object('run_id', v_parent)) IS NULL THEN
        v_run := v_parent::uuid;
    END IF;
    INSERT INTO livebox.agent_snapshots AS s (owner_id, snapshot_id, source, parent, parent_run_id, ended, durable, live)
    VALUES (v_me, p_args->>'snapshot_id', v_durable->>'source', v_parent, v_run, v_ended, v_durable, v_live)
    ON CONFLICT (owner_id, snapshot_id) DO UPDATE
       SET source = excluded.source, parent = excluded.parent, parent_run_id = excluded.parent_run_id, ended = excluded.ended,
           durable = excluded.durable, live = excluded.live, updated_at = greatest(s.updated_at, livebox.clock())
     WHERE (s.durable, s.live, s.parent_run_id) IS DISTINCT FROM (excluded.durable, excluded.live, excluded.parent_run_id)
    RETURNING * INTO v_unit;
    IF NOT FOUND THEN
        SELECT * INTO STRICT v_unit FROM livebox.agent_snapshots s
         WHERE s.owner_id = v_me AND s.snapshot_id = p_args->>'snapshot_id';
    END IF;
    RETURN livebox.done('ok', livebox.unit_record(v_unit));
END $$;
COMMENT ON FUNCTION livebox.put_agent_run_snapshot(jsonb, jsonb) IS
    'Publishes a unit of work of the caller, or what is new about it. One that has ended stays as it is: its repeat changes nothing, anything else is refused. The process has seen to it that the unit hangs together.';
