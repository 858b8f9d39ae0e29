-- Filled across rows that stay hidden, so that neither the length of a page nor where the list ends tells of them: it
-- looks on until it has seen whether anything visible follows, and the cursor is the last row before that.
CREATE OR REPLACE FUNCTION livebox.active_run_page(
    p_principal uuid, p_limit bigint, p_cursor jsonb, p_agent uuid, p_state text,
    OUT items jsonb, OUT cursor jsonb, OUT effects jsonb)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_channels uuid[] := ARRAY(SELECT v.channel_id FROM livebox.visible_channels(p_principal) v);
    v_row      record;
    v_last     livebox.runs;
    v_scanned  bigint := 0;
    v_kept     boolean;
BEGIN
    items := '[]';
    effects := '[]';
    FOR v_row IN
        SELECT r AS run,
               (SELECT t.channel_id FROM livebox.threads t WHERE t.id = r.thread_id AND t.deleted_at IS NULL) AS channel_id
          FROM livebox.runs r
         WHERE r.state IN ('queued', 'running', 'waiting_input')
           AND (r.queued_at, r.id) < (coalesce((p_cursor->>'queued_at')::timestamptz, 'infinity'),
                                      coalesce((p_cursor->>'id')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
           AND (p_agent IS NULL OR r.agent_id = p_agent)
           AND (p_state IS NULL OR r.state = p_state)
         ORDER BY r.queued_at DESC, r.id DESC
    LOOP
        -- A run without a thread is nobody's channel: the decision alone says who sees it.
        v_kept := v_row.channel_id = ANY (v_channels) OR (v_row.run).thread_id IS NULL;
        IF v_kept THEN
            IF livebox.authorize(p_principal, 'run.read', jsonb_build_object('run_id', (v_row.run).id)) IS NULL THEN
                IF jsonb_array_length(items) >= p_limit THEN
                    cursor := livebox.run_cursor(v_last);
                    RETURN;
                END IF;
                items := items || livebox.run_summary_json(v_row.run, v_row.channel_id);
            ELSIF (v_row.run).thread_id IS NOT NULL THEN
                effects := effects || '[{"kind": "authz.error", "reason": "filter_mismatch"}]';
            END IF;
        END IF;
        v_last := v_row.run;
        v_scanned := v_scanned + 1;
        IF v_scanned >= livebox.scan_max() THEN
            cursor := livebox.run_cursor(v_last);
            RETURN;
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION livebox.active_run_page(uuid, bigint, jsonb, uuid, text) IS
    'A page of the active runs that a principal may see, newest first, optionally of one agent or state; the cursor is absent at the end. A run that the channel filter kept and the decision denies is dropped and told as an effect without ids.';
