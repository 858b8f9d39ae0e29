-- An answer stands until its run goes on, taken or not: an agent that takes it and dies before it resumes leaves it to the
-- next holder, and to the deadline. Questions that their agents name are told apart from those of earlier rounds.

ALTER TABLE livebox.run_followups ADD COLUMN answers_since timestamptz;
COMMENT ON COLUMN livebox.run_followups.answers_since IS 'When it arrived as an answer to the question that its run waits with, pending or taken; NULL for every other: the run has gone on, or it was at work.';
-- When a taken one arrived was not kept: its message came with it.
UPDATE livebox.run_followups f
   SET answers_since = CASE f.state WHEN 'pending' THEN f.at
                                    ELSE greatest(r.state_changed_at, least(f.at, m.created_at)) END
  FROM livebox.runs r, livebox.messages m
 WHERE r.id = f.run_id AND m.id = f.message_id AND r.state = 'waiting_input'
   AND (f.state = 'pending' OR f.state = 'delivered' AND f.answers AND f.at >= r.state_changed_at);
ALTER TABLE livebox.run_followups
    ADD CONSTRAINT run_followups_answers_stand CHECK (answers_since IS NULL OR state IN ('pending', 'delivered')),
    DROP COLUMN answers;
CREATE INDEX run_followups_answering ON livebox.run_followups (answers_since, run_id) WHERE answers_since IS NOT NULL;
COMMENT ON INDEX livebox.run_followups_answering IS 'Answers whose runs have not gone on, oldest first (run.delivery_timeout).';
CREATE INDEX run_followups_answers ON livebox.run_followups (run_id, answers_since) WHERE answers_since IS NOT NULL;
COMMENT ON INDEX livebox.run_followups_answers IS 'The answers to the question that a run waits with.';

CREATE TABLE livebox.run_questions (
    run_id       uuid NOT NULL REFERENCES livebox.runs (id) ON DELETE CASCADE,
    question_id  uuid NOT NULL,
    request_hash text NOT NULL,
    PRIMARY KEY (run_id, question_id)
);
COMMENT ON TABLE livebox.run_questions IS 'The questions of a run that its agent named, so that a late repeat of an earlier one is not taken for a new one.';
COMMENT ON COLUMN livebox.run_questions.run_id IS 'The run.';
COMMENT ON COLUMN livebox.run_questions.question_id IS 'Chosen by the agent; counts within its run.';
COMMENT ON COLUMN livebox.run_questions.request_hash IS 'SHA-256 (hex) of the body that asked it.';

-- What plain SQL could still break.
INSERT INTO livebox.sqlstates (sqlstate, name, problem, meaning) VALUES
    ('LB009', 'dm_members', 'internal_error', 'A member was added to a channel that is not a DM.');

CREATE FUNCTION livebox.guard_channel_member() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM livebox.channels c WHERE c.id = NEW.channel_id AND c.kind = 'dm') THEN
        RAISE EXCEPTION 'only a DM has members' USING ERRCODE = 'LB009';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_channel_member() IS 'LB009: members would have write in a channel without a grant.';
CREATE TRIGGER channel_members_of_dms BEFORE INSERT OR UPDATE ON livebox.channel_members
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_channel_member();
COMMENT ON TRIGGER channel_members_of_dms ON livebox.channel_members IS 'See guard_channel_member.';

CREATE TRIGGER run_transitions_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON livebox.run_transitions
    FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_append_only();
COMMENT ON TRIGGER run_transitions_stay ON livebox.run_transitions IS 'The rules of a run are changed by migrations, which say so.';
CREATE TRIGGER run_reasons_stay BEFORE UPDATE OR DELETE OR TRUNCATE ON livebox.run_reasons
    FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_append_only();
COMMENT ON TRIGGER run_reasons_stay ON livebox.run_reasons IS 'The rules of a run are changed by migrations, which say so.';

-- Late steps of registered runs raise the version by themselves; nothing else does without a change of the row.
CREATE FUNCTION livebox.guard_ended_version() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    besides CONSTANT text[] := ARRAY['version', 'version_reserved', 'duration_ms', 'triggering_message_id'];
BEGIN
    IF NEW.version <> OLD.version AND to_jsonb(NEW) - besides = to_jsonb(OLD) - besides THEN
        RAISE EXCEPTION 'an ended run is final' USING ERRCODE = 'LB103';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_ended_version() IS 'LB103: the version of an ended run rises with a change that it allows, and with nothing else.';
CREATE TRIGGER runs_version_of_ended BEFORE UPDATE ON livebox.runs
    FOR EACH ROW WHEN (OLD.finished_at IS NOT NULL AND OLD.trigger_kind <> 'registration')
    EXECUTE FUNCTION livebox.guard_ended_version();
COMMENT ON TRIGGER runs_version_of_ended ON livebox.runs IS 'See guard_ended_version.';
