-- A claim changes no version and appends no event of the run. What the caller needs to make the tokens goes out as
-- effects: the token itself never enters the database. Where rights were taken from somebody whom very many runs wait for,
-- each claim ends a few of them: all at once would take longer than a statement may, and so never be done.
CREATE OR REPLACE FUNCTION livebox.claim_invocations(p_caller jsonb, p_args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    -- Most runs that one claim ends or passes over: the rest waits for the next, so that no claim holds the lane for long.
    v_spare   CONSTANT bigint := 20;
    v_me      uuid := (p_caller->>'principal')::uuid;
    v_claim   uuid := (p_args->'body'->>'claim_id')::uuid;
    v_limit   bigint := coalesce((p_args->'body'->>'limit')::bigint, 1);
    v_limits  jsonb := p_args->'limits';
    v_lease   interval := make_interval(secs => (v_limits->>'run.claim_lease')::double precision);
    v_now     timestamptz := livebox.clock();
    v_left    bigint := v_limit + v_spare;
    v_id      uuid;
    v_run     livebox.runs;
    v_denial  text;
    v_item    jsonb;
    v_items   jsonb := '[]';
    v_effects jsonb := '[]';
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.principals p WHERE p.id = v_me AND p.kind = 'agent') THEN
        RETURN livebox.refused('forbidden');
    END IF;
    FOR v_run IN
        SELECT * FROM livebox.runs r
         WHERE r.agent_id = v_me AND r.state IN ('queued', 'running', 'waiting_input') AND r.claim_id = v_claim
           AND (r.state <> 'queued' OR r.claimed_at + v_lease > v_now)
         ORDER BY r.queued_at, r.id
           FOR NO KEY UPDATE
    LOOP
        v_denial := livebox.delivery_denial(v_run.triggered_by, v_me, v_run.thread_id);
        IF v_denial IS NOT NULL AND v_run.state = 'queued' THEN
            v_effects := v_effects || livebox.end_denied(v_run, v_denial, v_limits);
            CONTINUE;
        END IF;
        IF v_denial IS NULL AND livebox.invocation_resumes(v_run) THEN
            v_run := livebox.return_denied_followups(v_run, v_limits);
        END IF;
        IF livebox.invocation_end(v_run, v_limits) <= v_now THEN  -- with the token of then it could do nothing any more
            v_run := livebox.claim_run(v_run, v_claim, v_limits);
        END IF;
        v_effects := v_effects || livebox.invocation_effect(v_run, jsonb_array_length(v_items), v_limits);
        v_item := livebox.invocation_json(v_run, v_limits);
        IF v_denial IS NOT NULL THEN  -- it goes on holding the run, and is told nothing that was said there since
            v_item := jsonb_set(v_item, '{messages}', '[]');
        END IF;
        v_items := v_items || v_item;
    END LOOP;
    IF jsonb_array_length(v_items) = 0 THEN
        FOR v_id IN SELECT c.run_id FROM livebox.claimable_runs(v_me, v_left, v_limits) c LOOP
            EXIT WHEN v_left = 0 OR jsonb_array_length(v_items) = v_limit;
            v_left := v_left - 1;
            SELECT * INTO STRICT v_run FROM livebox.runs r WHERE r.id = v_id FOR NO KEY UPDATE;
            v_denial := livebox.delivery_denial(v_run.triggered_by, v_me, v_run.thread_id);
            IF v_denial IS NOT NULL THEN
                v_effects := v_effects || livebox.end_denied(v_run, v_denial, v_limits);
                CONTINUE;
            END IF;
            IF v_run.state = 'waiting_input' THEN
                v_run := livebox.return_denied_followups(v_run, v_limits);
                CONTINUE WHEN NOT EXISTS (
                    SELECT FROM livebox.run_followups f WHERE f.run_id = v_id AND f.answers_since IS NOT NULL);
            END IF;
            v_run := livebox.claim_run(v_run, v_claim, v_limits);
            v_effects := v_effects || livebox.invocation_effect(v_run, jsonb_array_length(v_items), v_limits);
            v_items := v_items || livebox.invocation_json(v_run, v_limits);
        END LOOP;
    END IF;
    RETURN livebox.done('ok', jsonb_build_object('claim_id', v_claim, 'items', v_items), effects => v_effects);
END $$;
COMMENT ON FUNCTION livebox.claim_invocations(jsonb, jsonb) IS
    'Hands an agent its queued runs, and its waiting ones whose holder is gone, each checked again with the rights of now; the same claim_id gets the same runs and token ids, new ones where they have expired. Effects of kind invocation say what to make the token of each item from. Needs the limits run.claim_lease, run.holder_grace, service.gap, invocation.ttl and event.body_max_bytes.';
