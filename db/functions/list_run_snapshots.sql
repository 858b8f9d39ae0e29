CREATE OR REPLACE FUNCTION livebox.list_run_snapshots(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me     uuid := livebox.caller_id(p_caller);
    v_run    uuid := (p_args->>'run_id')::uuid;
    v_most   bigint := (p_args->'limits'->>'registered.tree_max')::bigint;
    v_denial text;
    v_runs   uuid[];
BEGIN
    IF NOT livebox.caller_active(p_caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;
    v_denial := livebox.authorize(v_me, 'run.read', jsonb_build_object('run_id', v_run));
    IF v_denial IS NOT NULL THEN
        RETURN livebox.refused(v_denial);
    END IF;
    v_runs := ARRAY(SELECT livebox.run_tree(v_me, v_run, v_most));
    RETURN livebox.snapshot_page(v_me, p_args, v_runs, livebox.units_below(v_me, v_runs, v_most));
END $$;
COMMENT ON FUNCTION livebox.list_run_snapshots(jsonb, jsonb) IS
    'Records of a run, the runs registered below it that the caller may read, and the units published below any of them. Needs the limit registered.tree_max.';
