-- One step. Operations of the lane run one after another whatever process asks, so two processes at one row go on where
-- the other stopped. All orders are of keys that never change; a run that is opened later is not concerned, because the
-- change denies it.
CREATE OR REPLACE FUNCTION livebox.apply_consequence(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    v_chunk   bigint := (p_args->>'chunk')::bigint;
    v_judged  bigint := 0;
    v_looked  bigint := 0;
    v_row     livebox.pending_consequences;
    v_seen    record;
    v_run     livebox.runs;
    v_change  livebox.run_change;
    v_effects jsonb := '[]';
BEGIN
    SELECT * INTO v_row FROM livebox.pending_consequences c WHERE c.id = (p_args->>'consequence_id')::uuid FOR UPDATE;
    IF NOT FOUND THEN
        RETURN livebox.done('no_content', NULL);
    END IF;
    FOR v_seen IN
        SELECT r.id, r.queued_at,
               (v_row.principal_id IS NULL
                OR v_row.principal_id = CASE v_row.reason WHEN 'agent_disabled' THEN r.agent_id ELSE r.triggered_by END)
               AND (v_row.thread_id IS NULL OR v_row.thread_id = r.thread_id)
               AND (v_row.channel_id IS NULL OR v_row.channel_id = t.channel_id)
               AND (v_row.space_id IS NULL OR v_row.space_id = c.space_id) IS TRUE AS concerned
          FROM (SELECT * FROM livebox.runs a
                 WHERE a.state IN ('queued', 'running', 'waiting_input') AND (a.queued_at, a.id) > (v_row.after_at, v_row.after_id)
                 ORDER BY a.queued_at, a.id LIMIT v_chunk) AS r
          LEFT JOIN livebox.threads t ON t.id = r.thread_id
          LEFT JOIN livebox.channels c ON c.id = t.channel_id
         ORDER BY r.queued_at, r.id
    LOOP
        v_looked := v_looked + 1;
        v_row.after_at := v_seen.queued_at;
        v_row.after_id := v_seen.id;
        CONTINUE WHEN v_seen.concerned IS NOT TRUE;
        v_judged := v_judged + 1;
        SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = v_seen.id FOR NO KEY UPDATE;
        IF livebox.consequence_holds(v_row, v_run) THEN
            BEGIN
                v_change := livebox.transition_run(v_run, 'cancelled', v_row.reason, 'server', NULL, '{}', p_args->'limits');
                v_effects := v_effects || v_change.effects;
            EXCEPTION WHEN OTHERS THEN
                -- It keeps no other run from its end.
                v_row.failed := v_row.failed + 1;
                v_effects := v_effects || '[{"kind": "log", "level": "error", "event": "consequence_failed"}]';
            END;
        END IF;
        EXIT WHEN v_judged = (p_args->>'most')::bigint;
    END LOOP;

    IF v_looked = v_chunk OR v_judged = (p_args->>'most')::bigint THEN
        UPDATE livebox.pending_consequences c
           SET (after_at, after_id, failed) = (v_row.after_at, v_row.after_id, v_row.failed) WHERE c.id = v_row.id;
        RETURN livebox.done('accepted', NULL, effects => v_effects);
    ELSIF v_row.failed > 0 THEN
        UPDATE livebox.pending_consequences c SET (after_at, after_id, failed) = (DEFAULT, DEFAULT, DEFAULT) WHERE c.id = v_row.id;
        RETURN livebox.done('ok', NULL, effects => v_effects);
    END IF;
    DELETE FROM livebox.pending_consequences c WHERE c.id = v_row.id;
    RETURN livebox.done('no_content', NULL, effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.apply_consequence(jsonb, jsonb) IS
    'The next step of a pending consequence: looks at up to args.chunk active runs and judges up to args.most that it concerns. accepted: there is more to do; ok: the pass is over and runs that could not be ended are left for another; no_content: it is done, or was. For the server only. Needs the limit event.body_max_bytes.';
