-- Units of work that others own and publish here, and the order in which all units of work are listed.

INSERT INTO livebox.sqlstates (sqlstate, name, problem, meaning) VALUES
    ('LB130', 'snapshot_terminal', 'snapshot_terminal', 'A published unit of work that has ended was changed or taken away.'),
    ('LB131', 'snapshot_write_once', 'internal_error', 'Whose published unit of work it is, its id or when it came was changed.');

CREATE TABLE livebox.agent_snapshots (
    id            uuid PRIMARY KEY DEFAULT livebox.new_id(),
    owner_id      uuid NOT NULL REFERENCES livebox.principals (id),
    snapshot_id   text NOT NULL CONSTRAINT agent_snapshots_id_form CHECK (snapshot_id ~ '^[!-~]+$' AND length(snapshot_id) <= 300),
    source        text NOT NULL
        CONSTRAINT agent_snapshots_source_known CHECK (source IN ('direct', 'workflow', 'fleet', 'core_job', 'task')),
    parent        text
        CONSTRAINT agent_snapshots_parent_form CHECK (parent ~ '^[!-~]+$' AND length(parent) <= 300 AND parent <> snapshot_id),
    parent_run_id uuid REFERENCES livebox.runs (id) ON DELETE SET NULL,
    ended         boolean NOT NULL,
    durable       jsonb NOT NULL
        CONSTRAINT agent_snapshots_durable_object CHECK (
            jsonb_typeof(durable) = 'object' AND NOT livebox.has_json_null(durable) AND octet_length(durable::text) <= 1048576),
    live          jsonb
        CONSTRAINT agent_snapshots_live_object CHECK (
            jsonb_typeof(live) = 'object' AND NOT livebox.has_json_null(live) AND octet_length(live::text) <= 1048576),
    created_at    timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at    timestamptz NOT NULL DEFAULT livebox.clock(),
    CONSTRAINT agent_snapshots_own_id UNIQUE (owner_id, snapshot_id),
    CONSTRAINT agent_snapshots_state_known CHECK (coalesce(durable->>'state', '') IN (
        'queued', 'initializing', 'running', 'waiting_model', 'waiting_tool', 'waiting_input', 'paused', 'stopping', 'terminal')),
    CONSTRAINT agent_snapshots_ended_when_terminal CHECK (
        ended = (durable->>'state' = 'terminal') AND ended = (durable ? 'terminal')),
    CONSTRAINT agent_snapshots_columns_of_durable CHECK (
        coalesce(durable->>'source', '') = source AND durable->>'parent' IS NOT DISTINCT FROM parent),
    CONSTRAINT agent_snapshots_ended_without_live CHECK (NOT ended OR live IS NULL),
    CONSTRAINT agent_snapshots_run_of_parent CHECK (parent_run_id IS NULL OR coalesce(parent, '') = parent_run_id::text),
    CONSTRAINT agent_snapshots_times_in_order CHECK (updated_at >= created_at)
);
COMMENT ON TABLE livebox.agent_snapshots IS 'Units of agent work that others own, as services and agents publish them.';
COMMENT ON COLUMN livebox.agent_snapshots.id IS 'With created_at its place in lists.';
COMMENT ON COLUMN livebox.agent_snapshots.owner_id IS 'Who published it. Written once.';
COMMENT ON COLUMN livebox.agent_snapshots.snapshot_id IS 'Its id in the owner''s scheme, unique for that owner. Written once.';
COMMENT ON COLUMN livebox.agent_snapshots.source IS 'What sort of unit it is, as durable says.';
COMMENT ON COLUMN livebox.agent_snapshots.parent IS 'The id of the unit that it is below, as durable says.';
COMMENT ON COLUMN livebox.agent_snapshots.parent_run_id IS 'The run here that parent names, where its owner could read that run when it was published.';
COMMENT ON COLUMN livebox.agent_snapshots.ended IS 'Durable says that it has ended; nothing about it changes any more.';
COMMENT ON COLUMN livebox.agent_snapshots.durable IS 'What holds for good, as published.';
COMMENT ON COLUMN livebox.agent_snapshots.live IS 'What refines it while it is under way; NULL when nothing does.';
COMMENT ON COLUMN livebox.agent_snapshots.created_at IS 'When it was first published. Written once.';
COMMENT ON COLUMN livebox.agent_snapshots.updated_at IS 'When it last changed.';

CREATE INDEX agent_snapshots_in_order ON livebox.agent_snapshots (created_at DESC, id DESC);
COMMENT ON INDEX livebox.agent_snapshots_in_order IS 'Order of the list of all units.';
CREATE INDEX agent_snapshots_active_in_order ON livebox.agent_snapshots (created_at DESC, id DESC) WHERE NOT ended;
COMMENT ON INDEX livebox.agent_snapshots_active_in_order IS 'The same for those under way.';
CREATE INDEX agent_snapshots_by_source ON livebox.agent_snapshots (source, created_at DESC, id DESC);
COMMENT ON INDEX livebox.agent_snapshots_by_source IS 'The same for those of one source.';
CREATE INDEX agent_snapshots_by_parent ON livebox.agent_snapshots (parent, created_at DESC, id DESC) WHERE parent IS NOT NULL;
COMMENT ON INDEX livebox.agent_snapshots_by_parent IS 'The same for those directly below a unit.';
CREATE INDEX agent_snapshots_below_run ON livebox.agent_snapshots ("left"(parent, 36)) WHERE parent IS NOT NULL;
COMMENT ON INDEX livebox.agent_snapshots_below_run IS 'Those below a run or a unit in its document, which both begin with the id of the run.';
CREATE INDEX agent_snapshots_by_run ON livebox.agent_snapshots (parent_run_id) WHERE parent_run_id IS NOT NULL;
COMMENT ON INDEX livebox.agent_snapshots_by_run IS 'Serves the foreign key.';

CREATE FUNCTION livebox.guard_agent_snapshot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.ended THEN
            RAISE EXCEPTION 'a unit that has ended stays' USING ERRCODE = 'LB130';
        END IF;
        RETURN OLD;
    END IF;
    -- Only that the run above it was removed may still become known.
    IF OLD.ended AND (to_jsonb(NEW) - 'parent_run_id' IS DISTINCT FROM to_jsonb(OLD) - 'parent_run_id'
                      OR NEW.parent_run_id IS NOT NULL AND NEW.parent_run_id IS DISTINCT FROM OLD.parent_run_id) THEN
        RAISE EXCEPTION 'a unit that has ended is final' USING ERRCODE = 'LB130';
    END IF;
    IF (NEW.id, NEW.owner_id, NEW.snapshot_id, NEW.created_at)
       IS DISTINCT FROM (OLD.id, OLD.owner_id, OLD.snapshot_id, OLD.created_at) THEN
        RAISE EXCEPTION 'a column that is written once cannot be changed' USING ERRCODE = 'LB131';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_agent_snapshot() IS 'LB130, LB131: a published unit that has ended is final and stays; whose it is never changes.';
CREATE TRIGGER agent_snapshots_final BEFORE UPDATE OR DELETE ON livebox.agent_snapshots
    FOR EACH ROW EXECUTE FUNCTION livebox.guard_agent_snapshot();
COMMENT ON TRIGGER agent_snapshots_final ON livebox.agent_snapshots IS 'See guard_agent_snapshot.';

CREATE INDEX runs_opened_in_order ON livebox.runs (queued_at DESC, id DESC) WHERE trigger_kind <> 'registration';
COMMENT ON INDEX livebox.runs_opened_in_order IS 'Order of the list of all units of work, for runs in threads. Said by how they began, so that it serves no list of one thread.';
CREATE INDEX runs_registered_in_order ON livebox.runs (queued_at DESC, id DESC) WHERE thread_id IS NULL;
COMMENT ON INDEX livebox.runs_registered_in_order IS 'The same for registered runs.';
DROP INDEX livebox.runs_by_parent;
CREATE INDEX runs_by_parent ON livebox.runs (parent_run_id, queued_at DESC, id DESC) WHERE parent_run_id IS NOT NULL;
COMMENT ON INDEX livebox.runs_by_parent IS 'The tree below a registered run, and the order of its children.';
