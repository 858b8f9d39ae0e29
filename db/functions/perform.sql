CREATE OR REPLACE FUNCTION livebox.perform(op text, caller jsonb, args jsonb) RETURNS livebox.answer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    wanted   jsonb := args -> 'idempotency';
    who      uuid := (caller ->> 'principal')::uuid;
    earlier  livebox.idempotency_keys;
    called   record;
    outcome  livebox.answer;
    raised   text;
BEGIN
    IF caller ? 'system' OR livebox.system_operation(op) THEN
        IF NOT (caller ? 'system' AND livebox.system_operation(op)) THEN
            RETURN livebox.refused('forbidden');
        END IF;
    ELSIF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    END IF;

    IF wanted IS NOT NULL THEN
        SELECT * INTO earlier
          FROM livebox.idempotency_keys k
         WHERE k.principal_id = who AND k.operation = op AND k.key = wanted ->> 'key';
        IF FOUND THEN
            -- Gone or hidden since then comes first: a key tells nobody of what they may not see.
            outcome := livebox.resource_answer(caller, earlier.resource_kind, earlier.resource_id);
            IF outcome.code <> 'ok' THEN
                RETURN outcome;
            END IF;
            IF earlier.request_hash <> wanted ->> 'hash' THEN
                RETURN livebox.refused('idempotency_key_reused');
            END IF;
            outcome.code := earlier.code;
            RETURN outcome;
        END IF;
    END IF;

    -- The newest live content of the run goes in first, so that everything the operation writes and shows has it.
    IF args -> 'live' ->> 'run_id' = args ->> 'run_id' THEN
        PERFORM livebox.carry_live(args -> 'live');
    END IF;
    -- One column of a composite type: half the planning of a function in FROM.
    EXECUTE format('SELECT livebox.%I($1, $2) AS answer', op) INTO called USING caller, args - 'live';
    outcome := called.answer;
    raised := nullif(current_setting('livebox.raised', true), '');
    IF raised IS NOT NULL THEN
        PERFORM set_config('livebox.raised', '', true);
        outcome.effects := coalesce(outcome.effects, '[]') || jsonb_build_array(jsonb_build_object(
            'kind', 'run.raised',
            'runs', (SELECT jsonb_agg(DISTINCT id) FROM unnest(string_to_array(raised, ',')) AS id)));
    END IF;

    IF wanted IS NOT NULL AND outcome.resource_id IS NOT NULL AND outcome.code IN ('ok', 'created', 'accepted') THEN
        INSERT INTO livebox.idempotency_keys (principal_id, operation, key, request_hash, code, resource_kind, resource_id)
        VALUES (who, op, wanted ->> 'key', wanted ->> 'hash', outcome.code, outcome.resource_kind, outcome.resource_id);
    END IF;
    RETURN outcome;
END $$;
COMMENT ON FUNCTION livebox.perform(text, jsonb, jsonb) IS
    'One writing operation: the caller must still be active (or is the server itself, for what it alone does), a repeated idempotency key answers with what it made then, everything else runs the function of that name. An effect run.raised names the runs that have a new version, state or token by it. args.live is live content to save before (carry_live).';
