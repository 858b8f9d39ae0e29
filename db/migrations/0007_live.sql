-- What the live documents of runs need: who serves one, what of it has been saved, and who has to hear that a run moved.

ALTER TABLE livebox.runs ADD COLUMN live_version bigint;
COMMENT ON COLUMN livebox.runs.live_version IS 'The version at which the live content was what document holds: a server that served a newer one has more to save.';

CREATE TABLE livebox.live_owners (
    owner   text PRIMARY KEY CONSTRAINT live_owners_owner_bounded CHECK (length(owner) BETWEEN 1 AND 200),
    seen_at timestamptz NOT NULL DEFAULT livebox.clock()
);
COMMENT ON TABLE livebox.live_owners IS 'Processes that serve live documents (runs.live_owner). One that was not seen for run.live_lease owns nothing any more.';
COMMENT ON COLUMN livebox.live_owners.owner IS 'Name of the process, another at each start.';
COMMENT ON COLUMN livebox.live_owners.seen_at IS 'When it last said that it is there.';

CREATE INDEX runs_live ON livebox.runs (live_owner, id)
    WHERE live_owner IS NOT NULL AND state IN ('queued', 'running', 'waiting_input');
COMMENT ON INDEX livebox.runs_live IS 'The live documents of a process, to free them when it died.';

-- In a transaction of the write lane this gathers which runs others have to look at again; perform tells of them. What
-- is told follows from the rows, so that no operation has to remember to say it.
CREATE FUNCTION livebox.note_raised(p_run uuid) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT set_config('livebox.raised', concat_ws(',', nullif(current_setting('livebox.raised', true), ''), p_run), true)
$$;
COMMENT ON FUNCTION livebox.note_raised(uuid) IS 'Remembers until the end of the transaction that this run has a new version, state or token.';

CREATE FUNCTION livebox.note_new_run() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM livebox.note_raised(NEW.id);
    RETURN NULL;
END $$;
COMMENT ON FUNCTION livebox.note_new_run() IS 'A new run is one to look at, too.';
CREATE TRIGGER runs_note_new AFTER INSERT ON livebox.runs
    FOR EACH ROW EXECUTE FUNCTION livebox.note_new_run();
COMMENT ON TRIGGER runs_note_new ON livebox.runs IS 'See note_new_run.';
