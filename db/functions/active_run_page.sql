-- Filled across rows that stay hidden, so that neither the length of a page nor where the list ends tells of them: it
-- looks on until it has seen whether anything visible follows, and the cursor is the last row before that. Rows come in
-- stretches of a fixed length and are filtered here, which keeps the planner on the index of their order.
CREATE OR REPLACE FUNCTION livebox.active_run_page(
    p_principal uuid, p_limit bigint, p_cursor jsonb, p_agent uuid, p_state text,
    OUT items jsonb, OUT cursor jsonb, OUT effects jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_owner    boolean := livebox.is_owner(p_principal);
    v_channels uuid[] := ARRAY(SELECT c.channel_id FROM livebox.channel_rights(p_principal) c);
    v_time     timestamptz := coalesce((p_cursor->>'queued_at')::timestamptz, 'infinity');
    v_id       uuid := coalesce((p_cursor->>'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff');
    v_row      record;
    v_channel  uuid;
    v_shown    boolean;
    v_scanned  bigint := 0;
    v_stretch  bigint;
BEGIN
    items := '[]';
    effects := '[]';
    LOOP
        v_stretch := 0;
        FOR v_row IN
            SELECT r AS run FROM livebox.runs r
             WHERE r.state IN ('queued', 'running', 'waiting_input')
               AND (r.queued_at, r.id) < (v_time, v_id)
             ORDER BY r.queued_at DESC, r.id DESC
             LIMIT 100
        LOOP
            -- A run without a thread is in nobody's channel: whom it names sees it, and owners.
            v_shown := false;
            v_channel := NULL;
            IF coalesce((v_row.run).agent_id = p_agent, true) AND coalesce((v_row.run).state = p_state, true) THEN
                v_channel := (SELECT t.channel_id FROM livebox.threads t
                               WHERE t.id = (v_row.run).thread_id AND t.deleted_at IS NULL);
                v_shown := (v_owner AND livebox.owner_sees(v_channel)) OR v_channel = ANY (v_channels)
                           OR (v_row.run).thread_id IS NULL AND (v_owner OR livebox.run_names(v_row.run, p_principal));
            END IF;
            IF v_shown THEN
                v_shown := livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', (v_row.run).id)) IS NULL;
                IF NOT v_shown THEN
                    effects := effects || '[{"kind": "authz.error", "reason": "filter_mismatch"}]';
                END IF;
            END IF;
            IF v_scanned >= livebox.scan_max() OR v_shown AND jsonb_array_length(items) >= p_limit THEN
                cursor := jsonb_build_object('queued_at', livebox.utc(v_time), 'id', v_id);
                RETURN;
            END IF;
            IF v_shown THEN
                items := items || livebox.run_summary_json(v_row.run, v_channel);
            END IF;
            v_time := (v_row.run).queued_at;
            v_id := (v_row.run).id;
            v_scanned := v_scanned + 1;
            v_stretch := v_stretch + 1;
        END LOOP;
        EXIT WHEN v_stretch < 100;
    END LOOP;
END $$;
COMMENT ON FUNCTION livebox.active_run_page(uuid, bigint, jsonb, uuid, text) IS
    'A page of the active runs that a principal may see, newest first, optionally of one agent or state; the cursor is absent at the end. A run that the channel filter kept and the decision denies is dropped and told as an effect without ids.';
