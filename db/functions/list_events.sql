-- Each event that comes up in the order of the log is decided by where its thread is now. Work for agents (cancel
-- requests, follow-ups) comes from its pending rows and never from here. Of a deleted thread only its end is told,
-- and to who was left behind before that it left.
CREATE OR REPLACE FUNCTION livebox.list_events(caller jsonb, args jsonb) RETURNS livebox.answer LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_me     uuid := livebox.caller_id(caller);
    v_limit  bigint := coalesce((args->>'limit')::bigint, 50);
    v_after  bigint := coalesce((args->>'after')::bigint, 0);
    v_top    bigint := livebox.last_seq();
    v_groups uuid[];
    v_items  text;
    v_next   bigint;
    v_owner  boolean := livebox.is_owner(v_me);
    v_more   boolean;
BEGIN
    IF NOT livebox.caller_active(caller) THEN
        RETURN livebox.refused('invalid_token');
    ELSIF v_after < (SELECT s.floor FROM livebox.log_state s) THEN
        RETURN livebox.refused('cursor_expired');
    ELSIF v_after > v_top THEN
        RETURN livebox.refused('cursor_invalid', jsonb_build_object('errors', jsonb_build_array(jsonb_build_object(
            'code', 'invalid_value', 'parameter', 'after', 'message', 'The log does not reach that far yet.'))));
    END IF;
    v_groups := ARRAY(SELECT m.group_id FROM livebox.group_members m WHERE m.principal_id = v_me);

    SELECT string_agg(p.item::text, ', ') FILTER (WHERE p.n <= v_limit), count(*) > v_limit, (array_agg(p.seq))[v_limit]
      INTO v_items, v_more, v_next
      FROM (SELECT livebox.event_for(v_me, e.event, t.channel_id) AS item, e.seq, row_number() OVER (ORDER BY e.seq) AS n
              FROM (SELECT e AS event, e.seq, e.type, e.thread_id, e.channel_id, e.space_id, e.audience_principal, e.audience_group,
                           e.resource_kind, e.resource_id
                      FROM livebox.events e WHERE e.seq > v_after ORDER BY e.seq LIMIT livebox.scan_max()) AS e
              LEFT JOIN LATERAL (SELECT t.channel_id, t.deleted_at FROM livebox.threads t WHERE t.id = e.thread_id LIMIT 1) AS t ON true
             CROSS JOIN LATERAL (SELECT ((v_owner AND livebox.owner_sees(coalesce(t.channel_id, e.channel_id)))
                                         OR coalesce(t.channel_id, e.channel_id) IN (SELECT r.channel_id FROM livebox.channel_rights(v_me) r)
                                        ) IS TRUE AS channel) AS seen
             WHERE CASE
                   WHEN e.audience_principal IS NOT NULL THEN e.type = 'access.changed' AND e.audience_principal = v_me
                   WHEN e.audience_group IS NOT NULL THEN e.type = 'access.changed' AND e.audience_group = ANY (v_groups)
                   WHEN e.resource_kind = 'space' THEN livebox.space_level(v_me, e.space_id) IS NOT NULL
                   WHEN e.resource_kind = 'run' AND e.thread_id IS NULL
                        -- Nearly all are of runs that name somebody else: those are told by one look at the row.
                        THEN CASE WHEN v_owner OR (SELECT livebox.run_names(r, v_me) FROM livebox.runs r WHERE r.id = e.resource_id::uuid)
                                  THEN livebox.authorize(v_me, 'run.read', jsonb_build_object('run_id', e.resource_id)) IS NULL END
                   WHEN e.type = 'thread.moved' AND NOT seen.channel
                        THEN livebox.channel_level(v_me, ((e.event).payload->>'from_channel_id')::uuid) > 0
                   WHEN t.deleted_at IS NOT NULL THEN e.type = 'thread.deleted' AND seen.channel
                   ELSE seen.channel
                   END
             ORDER BY e.seq LIMIT v_limit + 1) AS p;
    IF NOT v_more THEN
        SELECT e.seq INTO v_next FROM livebox.events e WHERE e.seq > v_after ORDER BY e.seq OFFSET livebox.scan_max() - 1 LIMIT 1;
        v_more := v_next IS NOT NULL;
    END IF;
    RETURN ROW('ok', format('{"items": [%s], "next_after": %s, "has_more": %s}', v_items, coalesce(v_next, v_top), v_more::text),
               NULL, NULL, NULL, NULL, NULL)::livebox.answer;
END $$;
COMMENT ON FUNCTION livebox.list_events(jsonb, jsonb) IS
    'listEvents: what the asker may see of the log after args.after, oldest first, by the rights of now. next_after is the last examined seq; pages are filled across what is hidden.';
