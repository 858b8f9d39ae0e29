-- What a change of rights or places means for runs that are at work: written down with the change, done after it.

CREATE TABLE livebox.pending_consequences (
    id           uuid PRIMARY KEY DEFAULT livebox.new_id(),
    reason       text NOT NULL,
    state        text NOT NULL DEFAULT 'cancelled' CONSTRAINT pending_consequences_cancel CHECK (state = 'cancelled'),
    principal_id uuid REFERENCES livebox.principals (id),
    space_id     uuid REFERENCES livebox.spaces (id),
    channel_id   uuid REFERENCES livebox.channels (id),
    thread_id    uuid REFERENCES livebox.threads (id),
    after_at     timestamptz NOT NULL DEFAULT '-infinity',
    after_id     uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    failed       bigint NOT NULL DEFAULT 0 CONSTRAINT pending_consequences_failed_positive CHECK (failed >= 0),
    created_by   uuid REFERENCES livebox.principals (id),
    created_at   timestamptz NOT NULL DEFAULT livebox.clock(),
    CONSTRAINT pending_consequences_reason FOREIGN KEY (reason, state) REFERENCES livebox.run_reasons (code, state),
    CONSTRAINT pending_consequences_scope CHECK (CASE reason
        WHEN 'user_disabled' THEN principal_id IS NOT NULL AND num_nonnulls(space_id, channel_id, thread_id) = 0
        WHEN 'agent_disabled' THEN principal_id IS NOT NULL AND num_nonnulls(space_id, channel_id, thread_id) = 0
        WHEN 'access_revoked' THEN num_nonnulls(principal_id, space_id, channel_id, thread_id) > 0
                                   AND num_nonnulls(space_id, channel_id, thread_id) <= 1
        WHEN 'channel_read_only' THEN principal_id IS NULL AND space_id IS NULL AND num_nonnulls(channel_id, thread_id) = 1
        WHEN 'thread_deleted' THEN thread_id IS NOT NULL AND num_nonnulls(principal_id, space_id, channel_id) = 0
        ELSE false END)
);
COMMENT ON TABLE livebox.pending_consequences IS 'Changes whose runs are still to be ended: a row commits with its change and goes when the last run has been looked at. Rights do not wait for it.';
COMMENT ON COLUMN livebox.pending_consequences.id IS 'UUIDv7: the order of the changes.';
COMMENT ON COLUMN livebox.pending_consequences.reason IS 'What the runs end with (run_reasons), if it still holds when their turn comes.';
COMMENT ON COLUMN livebox.pending_consequences.state IS 'Always cancelled; part of the reference to run_reasons.';
COMMENT ON COLUMN livebox.pending_consequences.principal_id IS 'Only runs that this person triggered; of agent_disabled, that this agent does.';
COMMENT ON COLUMN livebox.pending_consequences.space_id IS 'Only runs in channels of this space.';
COMMENT ON COLUMN livebox.pending_consequences.channel_id IS 'Only runs in threads of this channel.';
COMMENT ON COLUMN livebox.pending_consequences.thread_id IS 'Only runs of this thread.';
COMMENT ON COLUMN livebox.pending_consequences.after_at IS 'Progress: active runs up to here (queued_at, id) have been looked at.';
COMMENT ON COLUMN livebox.pending_consequences.after_id IS 'Progress: see after_at.';
COMMENT ON COLUMN livebox.pending_consequences.failed IS 'Runs that could not be ended in this pass. While there are any, the row stays and its runs are looked at again from the first.';
COMMENT ON COLUMN livebox.pending_consequences.created_by IS 'Who made the change; NULL for what was found when this table came.';
COMMENT ON COLUMN livebox.pending_consequences.created_at IS 'When the change was made.';

-- What was so before: found now, ended like the rest.
INSERT INTO livebox.pending_consequences (reason, principal_id)
SELECT DISTINCT 'user_disabled', p.id
  FROM livebox.runs r JOIN livebox.principals p ON p.id = r.triggered_by
 WHERE r.state IN ('queued', 'running', 'waiting_input') AND p.status = 'disabled';
INSERT INTO livebox.pending_consequences (reason, principal_id)
SELECT DISTINCT 'agent_disabled', p.id
  FROM livebox.runs r JOIN livebox.principals p ON p.id = r.agent_id
 WHERE r.state IN ('queued', 'running', 'waiting_input') AND p.status = 'disabled';
INSERT INTO livebox.pending_consequences (reason, thread_id)
SELECT 'thread_deleted', t.id
  FROM livebox.runs r JOIN livebox.threads t ON t.id = r.thread_id
 WHERE r.state IN ('queued', 'running', 'waiting_input') AND t.deleted_at IS NOT NULL;
INSERT INTO livebox.pending_consequences (reason, channel_id)
SELECT DISTINCT reason, t.channel_id
  FROM livebox.runs r
  JOIN livebox.threads t ON t.id = r.thread_id AND t.deleted_at IS NULL
  JOIN livebox.channels c ON c.id = t.channel_id
 CROSS JOIN unnest(ARRAY['access_revoked', 'channel_read_only']) AS reason
 WHERE r.state IN ('queued', 'running', 'waiting_input') AND (reason = 'access_revoked' OR c.read_only);
