-- Filled across what stays hidden, so that the length of a page tells nothing of it; bounded by scan_max over all calls
-- for one page (`scanned`). The place is that of the last one examined; with `kind` it is inside that run.
CREATE OR REPLACE FUNCTION livebox.snapshot_page(p_principal uuid, p_args jsonb, p_runs uuid[] DEFAULT NULL, p_units uuid[] DEFAULT NULL)
RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_most     CONSTANT bigint := least((p_args->>'limit')::bigint + 1, 100);
    v_owner    boolean := livebox.is_owner(p_principal);
    v_channels uuid[] := ARRAY(SELECT c.channel_id FROM livebox.channel_rights(p_principal) c);
    v_source   text := p_args->>'source';
    v_units    boolean := coalesce(v_source NOT IN ('fleet', 'task'), true);
    v_place    jsonb := coalesce(p_args->'place', p_args->'cursor', '{}');
    v_time     timestamptz := coalesce((v_place->>'at')::timestamptz, 'infinity');
    v_id       uuid := coalesce((v_place->>'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    v_done     boolean := NOT v_place ? 'kind';
    v_scanned  bigint := coalesce((p_args->>'scanned')::bigint, 0);
    v_before   CONSTANT bigint := v_scanned;
    v_items    jsonb[] := '{}';
    v_effects  jsonb := '[]';
    v_key      record;
    v_run      livebox.runs;
    v_unit     livebox.agent_snapshots;
    v_channel  uuid;
    v_shown    boolean;
    v_stretch  bigint;
BEGIN
    LOOP
        v_stretch := 0;
        FOR v_key IN SELECT * FROM livebox.snapshot_keys(p_args, p_runs, p_units, v_time, v_id) LOOP
            v_stretch := v_stretch + 1;
            CONTINUE WHEN v_done AND (v_key.at, v_key.id) = (v_time, v_id);
            IF v_scanned >= livebox.scan_max() OR cardinality(v_items) >= v_most THEN
                RETURN livebox.done('ok', jsonb_build_object('items', to_jsonb(v_items), 'scanned', v_scanned,
                                                             'scan_max', livebox.scan_max()),
                                    cursor => jsonb_build_object('at', livebox.utc(v_time), 'id', v_id), effects => v_effects);
            END IF;
            v_shown := false;
            IF v_key.is_run THEN
                SELECT * INTO v_run FROM livebox.runs r WHERE r.id = v_key.id;
                IF livebox.snapshot_concerned(v_run, p_args) THEN
                    v_channel := (SELECT t.channel_id FROM livebox.threads t
                                   WHERE t.id = v_run.thread_id AND t.deleted_at IS NULL);
                    v_shown := (v_owner AND livebox.owner_sees(v_channel)) OR v_channel = ANY (v_channels)
                               OR v_run.thread_id IS NULL AND (v_owner OR livebox.run_names(v_run, p_principal));
                END IF;
                IF v_shown THEN
                    v_shown := livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', v_run.id)) IS NULL;
                    IF NOT v_shown THEN
                        v_effects := v_effects || '[{"kind": "authz.error", "reason": "filter_mismatch"}]';
                    END IF;
                END IF;
                IF v_shown THEN
                    v_items := v_items || livebox.run_unit_record(v_run, v_units);
                END IF;
            ELSE
                SELECT * INTO v_unit FROM livebox.agent_snapshots s WHERE s.id = v_key.id;
                IF coalesce(v_unit.source = v_source, true) AND livebox.unit_readable(p_principal, v_owner, v_channels, v_unit) THEN
                    v_items := v_items || livebox.unit_record(v_unit);
                END IF;
            END IF;
            v_time := v_key.at;
            v_id := v_key.id;
            v_done := true;
            v_scanned := v_scanned + 1;
        END LOOP;
        EXIT WHEN v_stretch < 100;
    END LOOP;
    RETURN livebox.done('ok', jsonb_build_object('items', to_jsonb(v_items), 'scanned', v_scanned, 'scan_max', livebox.scan_max()),
                        effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.snapshot_page(uuid, jsonb, uuid[], uuid[]) IS
    'Runs and published units that a principal may see, as records to be mapped to snapshots: all, filtered (source, active, parent), or of a tree. It goes on after `place`; the cursor is absent at the end.';
