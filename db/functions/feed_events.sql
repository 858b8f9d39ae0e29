-- The log for the server's own tail, whoever may see what. floor and top come with it, in one snapshot, so that a log that
-- was cut or put back shows; then seq is NULL where there is nothing more. What a receiver may be shown instead of the
-- whole event is made here, since that is known where events are written.
CREATE OR REPLACE FUNCTION livebox.feed_events(p_after bigint, p_limit bigint)
RETURNS TABLE (log_floor bigint, log_top bigint, seq bigint, type text, space_id text, channel_id text, thread_id text,
               audience_principal text, audience_group text, resource_kind text, resource_id text, gone boolean,
               readers text, body text, elsewhere text, arrived text)
LANGUAGE sql STABLE AS $$
    SELECT s.floor, livebox.last_seq(), e.seq, e.type, e.space_id::text, e.channel_id::text, e.thread_id::text,
           e.audience_principal::text, e.audience_group::text, e.resource_kind, e.resource_id,
           coalesce(t.deleted_at IS NOT NULL AND e.type <> 'thread.deleted', false),
           CASE WHEN e.resource_kind = 'run' AND e.thread_id IS NULL THEN livebox.run_readers(e.resource_id::uuid)::text END,
           livebox.event_json(livebox.event_without_deleted(e.event))::text,
           CASE e.type WHEN 'thread.moved' THEN livebox.event_left(e.event)::text
                       WHEN 'access.changed' THEN livebox.event_unplaced(e.event)::text END,
           CASE WHEN e.type = 'thread.moved' THEN (livebox.event_json(e.event) #- '{payload,from_channel_id}')::text END
      FROM livebox.log_state s
      LEFT JOIN LATERAL (SELECT e AS event, e.* FROM livebox.events e WHERE e.seq > p_after ORDER BY e.seq LIMIT p_limit) AS e ON true
      LEFT JOIN livebox.threads t ON t.id = e.thread_id
     ORDER BY e.seq
$$;
COMMENT ON FUNCTION livebox.feed_events(bigint, bigint) IS
    'The events after a seq in the order of the log, with what decides who gets each, and how much of it: for the server''s own tail. One row without a seq when there is none. gone: its thread is deleted, so that only the end of it is told.';
