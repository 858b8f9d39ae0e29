-- The ground: who there is, where they meet, what they say, and the log of it.
-- Run state lives in 0002; functions live in db/functions and are re-created when they change. The few functions below
-- stand here because defaults, checks and triggers of these tables need them.

CREATE SCHEMA IF NOT EXISTS livebox;
COMMENT ON SCHEMA livebox IS 'Everything Livebox keeps. Clients call its functions; only those functions write.';

-- ---------------------------------------------------------------------------------------------------------------------
-- SQLSTATEs of our own
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE livebox.sqlstates (
    sqlstate text PRIMARY KEY CHECK (sqlstate ~ '^LB[0-9]{3}$'),
    name     text NOT NULL UNIQUE,
    problem  text NOT NULL,
    meaning  text NOT NULL
);
COMMENT ON TABLE livebox.sqlstates IS
    'Every SQLSTATE that a guard of this schema raises, and the problem code a client sees when one reaches it. LB0xx ground, LB1xx runs.';
COMMENT ON COLUMN livebox.sqlstates.sqlstate IS 'The five characters that a guard raises.';
COMMENT ON COLUMN livebox.sqlstates.name IS 'What the guard is called.';
COMMENT ON COLUMN livebox.sqlstates.meaning IS 'What was tried.';
COMMENT ON COLUMN livebox.sqlstates.problem IS 'Problem code of the contract.';

INSERT INTO livebox.sqlstates (sqlstate, name, problem, meaning) VALUES
    ('LB001', 'append_only',      'internal_error', 'A row of an append-only table was changed or removed.'),
    ('LB002', 'write_once',       'internal_error', 'A column that is written once was changed.'),
    ('LB003', 'version_not_risen','internal_error', 'A row changed and its version did not rise, or fell.'),
    ('LB004', 'floor_fell',       'internal_error', 'The floor of the log was lowered or its row removed.'),
    ('LB005', 'unknown_action',   'internal_error', 'authorize was asked about an action that it does not know.'),
    ('LB006', 'scope_missing',    'internal_error', 'An event named a thread or a channel that is not there.'),
    ('LB007', 'last_owner',       'last_owner',     'The last active owner would have been disabled or demoted.'),
    ('LB008', 'dm_closed',        'internal_error', 'A DM was given a grant, or a channel was to become a DM or the reverse.');

-- ---------------------------------------------------------------------------------------------------------------------
-- Time, ids, JSON
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION livebox.clock() RETURNS timestamptz LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT clock_timestamp()';
COMMENT ON FUNCTION livebox.clock() IS
    'The only source of time: the wall clock of the database at the moment of the call. Tests replace it in their own database to move time.';

CREATE FUNCTION livebox.utc(t timestamptz) RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT to_char(t AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;
COMMENT ON FUNCTION livebox.utc(timestamptz) IS 'A time as clients see it: RFC 3339 in UTC with microseconds, whatever TimeZone the session has.';

CREATE FUNCTION livebox.new_id() RETURNS uuid LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
DECLARE
    us bigint := extract(epoch FROM livebox.clock()) * 1000000;
BEGIN
    RETURN encode(
        substring(int8send(us / 1000) FROM 3 FOR 6)
        || substring(int4send((28672 + us % 1000 * 4096 / 1000)::integer) FROM 3 FOR 2)
        || substring(uuid_send(gen_random_uuid()) FROM 9 FOR 8), 'hex')::uuid;
END $$;
COMMENT ON FUNCTION livebox.new_id() IS
    'A UUIDv7 (RFC 9562, section 5.7, method 3): milliseconds, twelve bits of the fraction of one, and randomness. Rows made later sort later to the microsecond.';

-- plpgsql: PostgreSQL would read an SQL function anew for each check of each statement, which costs more than the check.
CREATE FUNCTION livebox.has_json_null(value jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    AS $$ BEGIN RETURN jsonb_path_exists(value, 'strict $.** ? (@ == null)'); END $$;
COMMENT ON FUNCTION livebox.has_json_null(jsonb) IS 'Whether a JSON null stands anywhere in the value, at any depth. Every json column is checked with it.';

CREATE TYPE livebox.answer AS (
    code          text,
    body          text,
    version       bigint,
    resource_kind text,
    resource_id   text,
    cursor        jsonb,
    effects       jsonb
);
COMMENT ON TYPE livebox.answer IS
    'What an operation gives back: ok, created, accepted, no_content or a problem code; the finished JSON text; the version for the ETag; what was created; the last examined key of a page; facts to record after the commit.';

-- ---------------------------------------------------------------------------------------------------------------------
-- Guards that several tables share
-- ---------------------------------------------------------------------------------------------------------------------

CREATE FUNCTION livebox.guard_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'LB001';
END $$;
COMMENT ON FUNCTION livebox.guard_append_only() IS 'Trigger: refuses what it is attached to (LB001).';

CREATE FUNCTION livebox.guard_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id <> OLD.id OR NEW.created_at <> OLD.created_at THEN
        RAISE EXCEPTION 'identity of % is written once', TG_TABLE_NAME USING ERRCODE = 'LB002';
    END IF;
    IF NEW.version < OLD.version
       OR (NEW.version = OLD.version AND to_jsonb(NEW) - 'last_thread_seq' - 'run_id' <> to_jsonb(OLD) - 'last_thread_seq' - 'run_id') THEN
        RAISE EXCEPTION 'version of % did not rise', TG_TABLE_NAME USING ERRCODE = 'LB003';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_version() IS
    'Trigger: id and created_at are written once (LB002) and any other change raises the version (LB003). A thread''s event counter and the run that a deleted run leaves behind on a message are no change.';

-- ---------------------------------------------------------------------------------------------------------------------
-- Principals, groups
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE livebox.principals (
    id                   uuid PRIMARY KEY DEFAULT livebox.new_id(),
    kind                 text NOT NULL CHECK (kind IN ('person', 'agent', 'service')),
    handle               text NOT NULL CHECK (handle <> ''),
    display_name         text NOT NULL,
    status               text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'disabled')),
    role                 text CHECK (role = 'owner'),
    billing_mode         text CHECK (billing_mode IN ('personal', 'organization')),
    credential_holder_id uuid REFERENCES livebox.principals (id),
    tool_class           text CHECK (tool_class IN ('standard', 'owner_only')),
    version              bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_at           timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at           timestamptz NOT NULL DEFAULT livebox.clock(),
    CONSTRAINT principals_only_people_own CHECK (role IS NULL OR kind = 'person'),
    CONSTRAINT principals_agent_policy CHECK (
        (kind = 'agent') = (billing_mode IS NOT NULL)
        AND (kind = 'agent') = (tool_class IS NOT NULL)
        AND (kind = 'agent' OR credential_holder_id IS NULL))
);
COMMENT ON TABLE livebox.principals IS 'Who acts: people, agents and services. Never removed; disabling ends their tokens and rights.';
COMMENT ON COLUMN livebox.principals.id IS 'UUIDv7.';
COMMENT ON COLUMN livebox.principals.kind IS 'person, agent or service; for ever.';
COMMENT ON COLUMN livebox.principals.handle IS 'The name it is mentioned by.';
COMMENT ON COLUMN livebox.principals.display_name IS 'The name people read.';
COMMENT ON COLUMN livebox.principals.status IS 'A disabled principal has no rights and no valid tokens.';
COMMENT ON COLUMN livebox.principals.credential_holder_id IS 'Agents only: the person whose credential it works with.';
COMMENT ON COLUMN livebox.principals.version IS 'Rises with each change.';
COMMENT ON COLUMN livebox.principals.created_at IS 'When it was added.';
COMMENT ON COLUMN livebox.principals.updated_at IS 'When it last changed.';
COMMENT ON COLUMN livebox.principals.role IS 'owner: manages all spaces and the instance, and sees no DM. Only a person can be one.';
COMMENT ON COLUMN livebox.principals.billing_mode IS 'Agents only. personal: only the credential holder may make it work.';
COMMENT ON COLUMN livebox.principals.tool_class IS 'Agents only. owner_only: only an owner of the instance may make it work.';
CREATE UNIQUE INDEX principals_handle ON livebox.principals (lower(handle));
COMMENT ON INDEX livebox.principals_handle IS 'Handles are unique whatever their case.';
CREATE INDEX principals_owners ON livebox.principals (id) WHERE role = 'owner' AND status = 'active';
COMMENT ON INDEX livebox.principals_owners IS 'The active owners, of whom one must stay.';
CREATE TRIGGER principals_version BEFORE UPDATE ON livebox.principals FOR EACH ROW EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER principals_version ON livebox.principals IS 'Versions rise.';

CREATE FUNCTION livebox.guard_last_owner() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.role = 'owner' AND OLD.status = 'active'
       AND (TG_OP = 'DELETE' OR NEW.role IS NULL OR NEW.status <> 'active')
       AND NOT EXISTS (SELECT FROM livebox.principals p WHERE p.role = 'owner' AND p.status = 'active' AND p.id <> OLD.id) THEN
        RAISE EXCEPTION 'the last active owner stays' USING ERRCODE = 'LB007';
    END IF;
    RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
COMMENT ON FUNCTION livebox.guard_last_owner() IS 'Trigger: an instance that has an active owner keeps one (LB007).';
CREATE TRIGGER principals_last_owner BEFORE UPDATE OR DELETE ON livebox.principals FOR EACH ROW
    WHEN (OLD.role = 'owner') EXECUTE FUNCTION livebox.guard_last_owner();
COMMENT ON TRIGGER principals_last_owner ON livebox.principals IS 'One active owner stays.';

CREATE TABLE livebox.groups (
    id         uuid PRIMARY KEY DEFAULT livebox.new_id(),
    name       text NOT NULL,
    version    bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_by uuid REFERENCES livebox.principals (id),
    created_at timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at timestamptz NOT NULL DEFAULT livebox.clock()
);
COMMENT ON TABLE livebox.groups IS 'Named sets of principals that grants can be given to.';
COMMENT ON COLUMN livebox.groups.id IS 'UUIDv7.';
COMMENT ON COLUMN livebox.groups.name IS 'The name people read.';
COMMENT ON COLUMN livebox.groups.version IS 'Rises with each change, of its members too.';
COMMENT ON COLUMN livebox.groups.created_by IS 'Who made it.';
COMMENT ON COLUMN livebox.groups.created_at IS 'When it was made.';
COMMENT ON COLUMN livebox.groups.updated_at IS 'When it last changed.';
CREATE UNIQUE INDEX groups_name ON livebox.groups (lower(name));
COMMENT ON INDEX livebox.groups_name IS 'Group names are unique whatever their case.';
CREATE TRIGGER groups_version BEFORE UPDATE ON livebox.groups FOR EACH ROW EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER groups_version ON livebox.groups IS 'Versions rise.';

CREATE TABLE livebox.group_members (
    principal_id uuid NOT NULL REFERENCES livebox.principals (id),
    group_id     uuid NOT NULL REFERENCES livebox.groups (id),
    added_at     timestamptz NOT NULL DEFAULT livebox.clock(),
    PRIMARY KEY (principal_id, group_id)
);
COMMENT ON TABLE livebox.group_members IS 'Who is in which group. Rights are asked by person, so that column leads.';
COMMENT ON COLUMN livebox.group_members.principal_id IS 'Who is in it.';
COMMENT ON COLUMN livebox.group_members.group_id IS 'The group.';
COMMENT ON COLUMN livebox.group_members.added_at IS 'Since when.';
CREATE INDEX group_members_group ON livebox.group_members (group_id, principal_id);
COMMENT ON INDEX livebox.group_members_group IS 'The members of a group in a fixed order.';

-- ---------------------------------------------------------------------------------------------------------------------
-- Spaces, channels, threads, grants
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE livebox.spaces (
    id         uuid PRIMARY KEY DEFAULT livebox.new_id(),
    name       text NOT NULL,
    version    bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_by uuid REFERENCES livebox.principals (id),
    created_at timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at timestamptz NOT NULL DEFAULT livebox.clock()
);
COMMENT ON TABLE livebox.spaces IS 'Groups of channels that share grants.';
COMMENT ON COLUMN livebox.spaces.id IS 'UUIDv7; the order of lists.';
COMMENT ON COLUMN livebox.spaces.name IS 'The name people read.';
COMMENT ON COLUMN livebox.spaces.version IS 'Rises with each change.';
COMMENT ON COLUMN livebox.spaces.created_by IS 'Who made it.';
COMMENT ON COLUMN livebox.spaces.created_at IS 'When it was made.';
COMMENT ON COLUMN livebox.spaces.updated_at IS 'When it last changed.';
CREATE TRIGGER spaces_version BEFORE UPDATE ON livebox.spaces FOR EACH ROW EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER spaces_version ON livebox.spaces IS 'Versions rise.';

CREATE TABLE livebox.channels (
    id                          uuid PRIMARY KEY DEFAULT livebox.new_id(),
    kind                        text NOT NULL DEFAULT 'channel' CHECK (kind IN ('channel', 'dm')),
    space_id                    uuid REFERENCES livebox.spaces (id),
    name                        text NOT NULL DEFAULT '',
    read_only                   boolean NOT NULL DEFAULT false,
    auto_thread                 boolean NOT NULL DEFAULT true,
    operator_replies_in_threads boolean NOT NULL DEFAULT true,
    operator_replies_in_main    boolean NOT NULL DEFAULT false,
    allow_mentioned_agents      boolean NOT NULL DEFAULT false,
    operator_agent_id           uuid REFERENCES livebox.principals (id),
    version                     bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_by                  uuid REFERENCES livebox.principals (id),
    created_at                  timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at                  timestamptz NOT NULL DEFAULT livebox.clock(),
    CONSTRAINT channels_dm_has_no_space CHECK ((kind = 'dm') = (space_id IS NULL)),
    CONSTRAINT channels_dm_has_no_operator CHECK (kind = 'channel' OR operator_agent_id IS NULL)
);
COMMENT ON TABLE livebox.channels IS 'Where people meet: a channel of a space, or a DM between its members.';
COMMENT ON COLUMN livebox.channels.id IS 'UUIDv7; the order of lists.';
COMMENT ON COLUMN livebox.channels.kind IS 'channel or dm; for ever.';
COMMENT ON COLUMN livebox.channels.space_id IS 'The space it is in, for ever; none for a DM.';
COMMENT ON COLUMN livebox.channels.name IS 'The name people read; empty for a DM.';
COMMENT ON COLUMN livebox.channels.read_only IS 'Nobody writes here.';
COMMENT ON COLUMN livebox.channels.version IS 'Rises with each change.';
COMMENT ON COLUMN livebox.channels.created_by IS 'Who made it.';
COMMENT ON COLUMN livebox.channels.created_at IS 'When it was made.';
COMMENT ON COLUMN livebox.channels.updated_at IS 'When it last changed.';
COMMENT ON COLUMN livebox.channels.auto_thread IS 'A message that opens a run in the main thread opens a thread of its own for it.';
COMMENT ON COLUMN livebox.channels.operator_replies_in_threads IS 'The operator answers unmentioned in threads other than the main one.';
COMMENT ON COLUMN livebox.channels.operator_replies_in_main IS 'The operator answers unmentioned in the main thread.';
COMMENT ON COLUMN livebox.channels.allow_mentioned_agents IS 'Agents that do not operate here may be mentioned when they have write here.';
COMMENT ON COLUMN livebox.channels.operator_agent_id IS 'The agent that works here. It has write on this channel by being that.';
CREATE INDEX channels_space ON livebox.channels (space_id, id);
COMMENT ON INDEX livebox.channels_space IS 'The channels of a space in the order of their making.';
CREATE INDEX channels_operator ON livebox.channels (operator_agent_id) WHERE operator_agent_id IS NOT NULL;
COMMENT ON INDEX livebox.channels_operator IS 'Where an agent has write by operating.';
CREATE FUNCTION livebox.guard_channel() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.kind <> OLD.kind OR NEW.space_id IS DISTINCT FROM OLD.space_id THEN
        RAISE EXCEPTION 'a channel stays what and where it is' USING ERRCODE = 'LB008';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_channel() IS 'Trigger: kind and space of a channel are written once (LB008).';
CREATE TRIGGER channels_stay BEFORE UPDATE ON livebox.channels FOR EACH ROW EXECUTE FUNCTION livebox.guard_channel();
COMMENT ON TRIGGER channels_stay ON livebox.channels IS 'A channel stays what and where it is.';
CREATE TRIGGER channels_version BEFORE UPDATE ON livebox.channels FOR EACH ROW EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER channels_version ON livebox.channels IS 'Versions rise.';

CREATE TABLE livebox.channel_members (
    principal_id uuid NOT NULL REFERENCES livebox.principals (id),
    channel_id   uuid NOT NULL REFERENCES livebox.channels (id),
    added_at     timestamptz NOT NULL DEFAULT livebox.clock(),
    PRIMARY KEY (principal_id, channel_id)
);
COMMENT ON TABLE livebox.channel_members IS 'Who is in a DM: they have write there, and nobody else has anything.';
COMMENT ON COLUMN livebox.channel_members.principal_id IS 'Who is in it.';
COMMENT ON COLUMN livebox.channel_members.channel_id IS 'The DM.';
COMMENT ON COLUMN livebox.channel_members.added_at IS 'Since when.';
CREATE INDEX channel_members_channel ON livebox.channel_members (channel_id, principal_id);
COMMENT ON INDEX livebox.channel_members_channel IS 'The members of a DM in a fixed order.';

CREATE TABLE livebox.threads (
    id                uuid PRIMARY KEY DEFAULT livebox.new_id(),
    channel_id        uuid NOT NULL REFERENCES livebox.channels (id),
    is_main           boolean NOT NULL DEFAULT false,
    parent_message_id uuid,
    title             text NOT NULL DEFAULT '',
    title_source      text NOT NULL DEFAULT 'auto' CHECK (title_source IN ('auto', 'person')),
    operator_agent_id uuid REFERENCES livebox.principals (id),
    last_thread_seq   bigint NOT NULL DEFAULT 0 CHECK (last_thread_seq >= 0),
    version           bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_by        uuid REFERENCES livebox.principals (id),
    created_at        timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at        timestamptz NOT NULL DEFAULT livebox.clock(),
    deleted_at        timestamptz,
    CONSTRAINT threads_main_stays CHECK (NOT is_main OR (deleted_at IS NULL AND parent_message_id IS NULL))
);
COMMENT ON TABLE livebox.threads IS 'Conversations of a channel. Each channel has one main thread, which is neither moved nor deleted.';
COMMENT ON COLUMN livebox.threads.id IS 'UUIDv7; the order of lists.';
COMMENT ON COLUMN livebox.threads.channel_id IS 'The channel it is in now: decides who may read it and its runs.';
COMMENT ON COLUMN livebox.threads.is_main IS 'The channel''s main thread.';
COMMENT ON COLUMN livebox.threads.parent_message_id IS 'The message it grew from, while that is in the same channel.';
COMMENT ON COLUMN livebox.threads.title IS 'What people call it; may be empty.';
COMMENT ON COLUMN livebox.threads.title_source IS 'Who gave the title: auto or person.';
COMMENT ON COLUMN livebox.threads.version IS 'Rises with each change; events do not raise it.';
COMMENT ON COLUMN livebox.threads.created_by IS 'Who made it.';
COMMENT ON COLUMN livebox.threads.created_at IS 'When it was made.';
COMMENT ON COLUMN livebox.threads.updated_at IS 'When it last changed.';
COMMENT ON COLUMN livebox.threads.operator_agent_id IS 'Overrides the channel''s operator in this thread. Gives the agent no rights by itself.';
COMMENT ON COLUMN livebox.threads.last_thread_seq IS 'The thread_seq of the newest event of this thread.';
COMMENT ON COLUMN livebox.threads.deleted_at IS 'Set once: from then on the thread and all that hangs on it is not there.';
CREATE UNIQUE INDEX threads_main ON livebox.threads (channel_id) WHERE is_main;
COMMENT ON INDEX livebox.threads_main IS 'One main thread per channel.';
CREATE INDEX threads_live ON livebox.threads (id) WHERE deleted_at IS NULL;
COMMENT ON INDEX livebox.threads_live IS 'All threads that are there, newest last.';
CREATE INDEX threads_channel ON livebox.threads (channel_id, id) WHERE deleted_at IS NULL;
COMMENT ON INDEX livebox.threads_channel IS 'The threads of a channel, newest last.';
CREATE TRIGGER threads_version BEFORE UPDATE ON livebox.threads FOR EACH ROW
    WHEN ((OLD.id, OLD.channel_id, OLD.is_main, OLD.parent_message_id, OLD.title, OLD.title_source, OLD.operator_agent_id,
           OLD.version, OLD.created_by, OLD.created_at, OLD.updated_at, OLD.deleted_at)
          IS DISTINCT FROM
          (NEW.id, NEW.channel_id, NEW.is_main, NEW.parent_message_id, NEW.title, NEW.title_source, NEW.operator_agent_id,
           NEW.version, NEW.created_by, NEW.created_at, NEW.updated_at, NEW.deleted_at))
    EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER threads_version ON livebox.threads IS 'Versions rise; counting an event is no change.';

CREATE TABLE livebox.grants (
    id           uuid PRIMARY KEY DEFAULT livebox.new_id(),
    principal_id uuid REFERENCES livebox.principals (id),
    group_id     uuid REFERENCES livebox.groups (id),
    space_id     uuid REFERENCES livebox.spaces (id),
    channel_id   uuid REFERENCES livebox.channels (id),
    level        text NOT NULL CHECK (level IN ('read', 'write', 'trigger', 'manage')),
    version      bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    created_by   uuid REFERENCES livebox.principals (id),
    created_at   timestamptz NOT NULL DEFAULT livebox.clock(),
    updated_at   timestamptz NOT NULL DEFAULT livebox.clock(),
    CONSTRAINT grants_one_holder CHECK (num_nonnulls(principal_id, group_id) = 1),
    CONSTRAINT grants_one_place CHECK (num_nonnulls(space_id, channel_id) = 1)
);
COMMENT ON TABLE livebox.grants IS 'A level for a principal or a group on a space or a channel. A channel''s grants add to its space''s; the highest counts.';
COMMENT ON COLUMN livebox.grants.id IS 'UUIDv7.';
COMMENT ON COLUMN livebox.grants.principal_id IS 'The holder, unless it is a group.';
COMMENT ON COLUMN livebox.grants.group_id IS 'The holder, unless it is a principal.';
COMMENT ON COLUMN livebox.grants.space_id IS 'Where it holds, unless on one channel.';
COMMENT ON COLUMN livebox.grants.channel_id IS 'Where it holds, unless on a space.';
COMMENT ON COLUMN livebox.grants.level IS 'read < write < trigger < manage.';
COMMENT ON COLUMN livebox.grants.version IS 'Rises when the level changes.';
COMMENT ON COLUMN livebox.grants.created_by IS 'Who gave it first.';
COMMENT ON COLUMN livebox.grants.created_at IS 'When it was given.';
COMMENT ON COLUMN livebox.grants.updated_at IS 'When the level last changed.';
CREATE UNIQUE INDEX grants_principal_space ON livebox.grants (principal_id, space_id) WHERE principal_id IS NOT NULL AND space_id IS NOT NULL;
COMMENT ON INDEX livebox.grants_principal_space IS 'One grant of a principal on a space.';
CREATE UNIQUE INDEX grants_principal_channel ON livebox.grants (principal_id, channel_id) WHERE principal_id IS NOT NULL AND channel_id IS NOT NULL;
COMMENT ON INDEX livebox.grants_principal_channel IS 'One grant of a principal on a channel.';
CREATE UNIQUE INDEX grants_group_space ON livebox.grants (group_id, space_id) WHERE group_id IS NOT NULL AND space_id IS NOT NULL;
COMMENT ON INDEX livebox.grants_group_space IS 'One grant of a group on a space.';
CREATE UNIQUE INDEX grants_group_channel ON livebox.grants (group_id, channel_id) WHERE group_id IS NOT NULL AND channel_id IS NOT NULL;
COMMENT ON INDEX livebox.grants_group_channel IS 'One grant of a group on a channel.';
CREATE FUNCTION livebox.guard_grant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.channel_id IS NOT NULL AND EXISTS (SELECT FROM livebox.channels c WHERE c.id = NEW.channel_id AND c.kind = 'dm') THEN
        RAISE EXCEPTION 'a DM takes no grants' USING ERRCODE = 'LB008';
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.principal_id, NEW.group_id, NEW.space_id, NEW.channel_id)
                            IS DISTINCT FROM (OLD.principal_id, OLD.group_id, OLD.space_id, OLD.channel_id) THEN
        RAISE EXCEPTION 'holder and place of a grant are written once' USING ERRCODE = 'LB002';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_grant() IS 'Trigger: no grant on a DM (LB008); holder and place of a grant are written once (LB002).';
CREATE TRIGGER grants_place BEFORE INSERT OR UPDATE ON livebox.grants FOR EACH ROW EXECUTE FUNCTION livebox.guard_grant();
COMMENT ON TRIGGER grants_place ON livebox.grants IS 'Where and for whom a grant holds.';
CREATE TRIGGER grants_version BEFORE UPDATE ON livebox.grants FOR EACH ROW EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER grants_version ON livebox.grants IS 'Versions rise.';

-- ---------------------------------------------------------------------------------------------------------------------
-- Messages
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE livebox.messages (
    id                   uuid PRIMARY KEY DEFAULT livebox.new_id(),
    thread_id            uuid NOT NULL REFERENCES livebox.threads (id),
    author_id            uuid NOT NULL REFERENCES livebox.principals (id),
    origin               text NOT NULL CHECK (origin IN ('human', 'agent', 'app', 'system', 'import')),
    kind                 text NOT NULL DEFAULT 'text' CHECK (kind IN ('text', 'run')),
    body                 text NOT NULL,
    mentions             uuid[] NOT NULL DEFAULT '{}' CHECK (array_position(mentions, NULL) IS NULL),
    silent               boolean NOT NULL DEFAULT false,
    client_msg_id        text,
    request_hash         text,
    run_id               uuid,
    trigger_state        text CHECK (trigger_state IN ('received', 'queued', 'working', 'followup_delivered', 'done', 'failed', 'cancelled')),
    trigger_state_reason text,
    trigger_state_at     timestamptz,
    version              bigint NOT NULL DEFAULT 1 CHECK (version >= 1),
    thread_seq           bigint NOT NULL CHECK (thread_seq >= 1),
    created_at           timestamptz NOT NULL DEFAULT livebox.clock(),
    edited_at            timestamptz,
    deleted_at           timestamptz,
    CONSTRAINT messages_request CHECK ((client_msg_id IS NULL) = (request_hash IS NULL)),
    CONSTRAINT messages_tombstone_is_empty CHECK (deleted_at IS NULL OR (body = '' AND mentions = '{}')),
    CONSTRAINT messages_anchor_is_empty CHECK (kind = 'text' OR (body = '' AND mentions = '{}' AND silent AND origin = 'agent' AND edited_at IS NULL)),
    CONSTRAINT messages_only_anchors_have_runs CHECK (kind = 'run' OR run_id IS NULL),
    CONSTRAINT messages_only_people_trigger CHECK (trigger_state IS NULL OR (origin = 'human' AND kind = 'text')),
    CONSTRAINT messages_trigger_time CHECK ((trigger_state IS NULL) = (trigger_state_at IS NULL)),
    CONSTRAINT messages_trigger_reason CHECK (
        CASE WHEN trigger_state IN ('failed', 'cancelled') THEN trigger_state_reason IS NOT NULL ELSE trigger_state_reason IS NULL END)
);
COMMENT ON TABLE livebox.messages IS 'What was said. kind run: the anchor of a run in its thread, empty and silent. Deleted ones stay as tombstones.';
COMMENT ON COLUMN livebox.messages.id IS 'UUIDv7; the order of the snapshot.';
COMMENT ON COLUMN livebox.messages.thread_id IS 'The thread, for ever.';
COMMENT ON COLUMN livebox.messages.author_id IS 'Who wrote it.';
COMMENT ON COLUMN livebox.messages.origin IS 'What kind of author: human, agent, app; system and import come from the server.';
COMMENT ON COLUMN livebox.messages.kind IS 'text, or run: the anchor of a run.';
COMMENT ON COLUMN livebox.messages.body IS 'The text; empty in anchors and tombstones.';
COMMENT ON COLUMN livebox.messages.mentions IS 'The principals that the text names, in its order.';
COMMENT ON COLUMN livebox.messages.silent IS 'Nobody is notified of it.';
COMMENT ON COLUMN livebox.messages.client_msg_id IS 'The client''s own id of the request that made it.';
COMMENT ON COLUMN livebox.messages.run_id IS 'Anchors only: the run.';
COMMENT ON COLUMN livebox.messages.trigger_state_reason IS 'Why it failed or was cancelled; only then.';
COMMENT ON COLUMN livebox.messages.trigger_state_at IS 'When the trigger state last changed.';
COMMENT ON COLUMN livebox.messages.version IS 'Rises with each change, of the trigger state too.';
COMMENT ON COLUMN livebox.messages.created_at IS 'When it was written.';
COMMENT ON COLUMN livebox.messages.edited_at IS 'When its text was last replaced.';
COMMENT ON COLUMN livebox.messages.deleted_at IS 'Set once: a tombstone.';
COMMENT ON COLUMN livebox.messages.request_hash IS 'SHA-256 of the request that made it: tells a repeat of client_msg_id from another request under the same id.';
COMMENT ON COLUMN livebox.messages.trigger_state IS 'What became of a person''s message that asked an agent for work. An attribute, not a revision.';
COMMENT ON COLUMN livebox.messages.thread_seq IS 'thread_seq of its message.created event.';
CREATE UNIQUE INDEX messages_thread ON livebox.messages (thread_id, thread_seq);
COMMENT ON INDEX livebox.messages_thread IS 'The messages of a thread in their order.';
CREATE UNIQUE INDEX messages_client_msg_id ON livebox.messages (author_id, client_msg_id) WHERE client_msg_id IS NOT NULL;
COMMENT ON INDEX livebox.messages_client_msg_id IS 'A client''s own id names one message of its author, for ever.';
CREATE INDEX messages_run ON livebox.messages (run_id) WHERE run_id IS NOT NULL;
COMMENT ON INDEX livebox.messages_run IS 'The anchor of a run.';
CREATE TRIGGER messages_version BEFORE UPDATE ON livebox.messages FOR EACH ROW EXECUTE FUNCTION livebox.guard_version();
COMMENT ON TRIGGER messages_version ON livebox.messages IS 'Versions rise.';

CREATE FUNCTION livebox.guard_message() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.thread_id, NEW.author_id, NEW.origin, NEW.kind, NEW.silent, NEW.thread_seq, NEW.client_msg_id, NEW.request_hash)
       IS DISTINCT FROM
       (OLD.thread_id, OLD.author_id, OLD.origin, OLD.kind, OLD.silent, OLD.thread_seq, OLD.client_msg_id, OLD.request_hash)
       OR (OLD.run_id IS NOT NULL AND NEW.run_id IS NOT NULL AND NEW.run_id <> OLD.run_id)
       OR (OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS DISTINCT FROM OLD.deleted_at) THEN
        RAISE EXCEPTION 'what a message is does not change' USING ERRCODE = 'LB002';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_message() IS 'Trigger: thread, author, origin, kind, order, request and tombstone of a message are written once (LB002).';
CREATE TRIGGER messages_write_once BEFORE UPDATE ON livebox.messages FOR EACH ROW EXECUTE FUNCTION livebox.guard_message();
COMMENT ON TRIGGER messages_write_once ON livebox.messages IS 'What a message is does not change.';

ALTER TABLE livebox.threads ADD CONSTRAINT threads_parent_message
    FOREIGN KEY (parent_message_id) REFERENCES livebox.messages (id) DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX threads_parent ON livebox.threads (parent_message_id) WHERE parent_message_id IS NOT NULL;
COMMENT ON INDEX livebox.threads_parent IS 'The thread that a message opened.';

CREATE TABLE livebox.message_revisions (
    message_id  uuid NOT NULL REFERENCES livebox.messages (id),
    version     bigint NOT NULL,
    body        text NOT NULL,
    mentions    uuid[] NOT NULL,
    replaced_by uuid NOT NULL REFERENCES livebox.principals (id),
    replaced_at timestamptz NOT NULL DEFAULT livebox.clock(),
    PRIMARY KEY (message_id, version)
);
COMMENT ON TABLE livebox.message_revisions IS 'What an edit replaced: one row per edit, with the version that showed it. Append-only.';
COMMENT ON COLUMN livebox.message_revisions.message_id IS 'The message.';
COMMENT ON COLUMN livebox.message_revisions.version IS 'The version of the message that showed this text.';
COMMENT ON COLUMN livebox.message_revisions.body IS 'The text that was replaced.';
COMMENT ON COLUMN livebox.message_revisions.mentions IS 'Whom it named.';
COMMENT ON COLUMN livebox.message_revisions.replaced_by IS 'Who replaced it.';
COMMENT ON COLUMN livebox.message_revisions.replaced_at IS 'When.';
CREATE TRIGGER message_revisions_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON livebox.message_revisions
    FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_append_only();
COMMENT ON TRIGGER message_revisions_append_only ON livebox.message_revisions IS 'Revisions stay as they were written.';

-- ---------------------------------------------------------------------------------------------------------------------
-- The log
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE livebox.log_state (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    floor     bigint NOT NULL DEFAULT 0 CHECK (floor >= 0)
);
COMMENT ON TABLE livebox.log_state IS 'One row: the highest seq that retention has removed. A reader at or above it has missed nothing.';
COMMENT ON COLUMN livebox.log_state.singleton IS 'Keeps the table at one row.';
COMMENT ON COLUMN livebox.log_state.floor IS 'The highest seq that is gone; 0 while none is.';
INSERT INTO livebox.log_state DEFAULT VALUES;

CREATE FUNCTION livebox.guard_floor() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'UPDATE' OR NEW.floor < OLD.floor THEN
        RAISE EXCEPTION 'the floor of the log only rises' USING ERRCODE = 'LB004';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.guard_floor() IS 'Trigger: the floor only rises and its row stays (LB004).';
CREATE TRIGGER log_state_rises BEFORE UPDATE OR DELETE ON livebox.log_state FOR EACH ROW EXECUTE FUNCTION livebox.guard_floor();
COMMENT ON TRIGGER log_state_rises ON livebox.log_state IS 'The floor only rises.';
CREATE TRIGGER log_state_stays BEFORE TRUNCATE ON livebox.log_state FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_floor();
COMMENT ON TRIGGER log_state_stays ON livebox.log_state IS 'Its row stays.';

CREATE SEQUENCE livebox.event_seq AS bigint;
COMMENT ON SEQUENCE livebox.event_seq IS 'Numbers of the log. Taken only while the log lock is held, so that they rise in commit order; a rollback leaves a hole.';

CREATE TABLE livebox.events (
    seq                bigint PRIMARY KEY,
    id                 uuid NOT NULL DEFAULT livebox.new_id(),
    type               text NOT NULL CHECK (type IN (
                           'message.created', 'message.updated', 'message.deleted', 'space.created', 'channel.created', 'channel.updated',
                           'thread.created', 'thread.moved', 'thread.deleted', 'run.state_changed', 'run.changed', 'run.registered',
                           'run.cancel_requested', 'run.followup', 'access.changed')),
    schema_version     bigint NOT NULL DEFAULT 1,
    at                 timestamptz NOT NULL DEFAULT livebox.clock(),
    actor_id           uuid,
    space_id           uuid,
    channel_id         uuid,
    thread_id          uuid,
    thread_seq         bigint,
    resource_kind      text NOT NULL CHECK (resource_kind IN ('message', 'space', 'channel', 'thread', 'run', 'principal', 'group')),
    resource_id        text NOT NULL,
    resource_version   bigint,
    receive_action     text NOT NULL,
    audience_principal uuid,
    audience_group     uuid,
    payload            jsonb NOT NULL CONSTRAINT events_payload_no_null CHECK (NOT livebox.has_json_null(payload)),
    CONSTRAINT events_thread_order CHECK ((thread_id IS NULL) = (thread_seq IS NULL)),
    CONSTRAINT events_one_audience CHECK (num_nonnulls(audience_principal, audience_group) <= 1)
);
COMMENT ON TABLE livebox.events IS
    'What happened, in commit order. Append-only: rows leave only below the floor. No foreign keys: the log outlives what it speaks of.';
COMMENT ON COLUMN livebox.events.seq IS 'Position in the log: rises in commit order, with holes.';
COMMENT ON COLUMN livebox.events.id IS 'UUIDv7.';
COMMENT ON COLUMN livebox.events.type IS 'What happened.';
COMMENT ON COLUMN livebox.events.schema_version IS 'Version of the payload''s shape.';
COMMENT ON COLUMN livebox.events.at IS 'When it happened.';
COMMENT ON COLUMN livebox.events.actor_id IS 'Who caused it; none when the server did.';
COMMENT ON COLUMN livebox.events.space_id IS 'The space it happened in.';
COMMENT ON COLUMN livebox.events.thread_id IS 'The thread it happened in.';
COMMENT ON COLUMN livebox.events.thread_seq IS 'Position among the events of its thread.';
COMMENT ON COLUMN livebox.events.resource_kind IS 'What kind of thing it is about.';
COMMENT ON COLUMN livebox.events.resource_id IS 'The thing.';
COMMENT ON COLUMN livebox.events.resource_version IS 'The thing''s version after it.';
COMMENT ON COLUMN livebox.events.audience_principal IS 'Personal: for this principal alone.';
COMMENT ON COLUMN livebox.events.audience_group IS 'Personal: for the members of this group.';
COMMENT ON COLUMN livebox.events.payload IS 'What changed, as clients read it.';
COMMENT ON COLUMN livebox.events.channel_id IS 'Where it happened then. Who may read it is decided by where its thread is now.';
COMMENT ON COLUMN livebox.events.receive_action IS 'The action that a receiver must be allowed; personal for events with an audience.';
CREATE UNIQUE INDEX events_thread ON livebox.events (thread_id, thread_seq) WHERE thread_id IS NOT NULL;
COMMENT ON INDEX livebox.events_thread IS 'The events of a thread in their order, each number once.';
CREATE INDEX events_at ON livebox.events (at);
COMMENT ON INDEX livebox.events_at IS 'What retention removes next.';

CREATE FUNCTION livebox.lock_log() RETURNS void LANGUAGE sql VOLATILE AS 'SELECT pg_advisory_xact_lock(7813573131204158316)';
COMMENT ON FUNCTION livebox.lock_log() IS 'Takes the lock of the log until the transaction ends. Whoever appends holds it; taking it again costs nothing.';

CREATE FUNCTION livebox.number_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM livebox.lock_log();
    NEW.seq := nextval('livebox.event_seq');
    RETURN NEW;
END $$;
COMMENT ON FUNCTION livebox.number_event() IS 'Trigger: numbers an event under the log lock, whoever inserts it, so that a reader that has seen a seq never later sees a smaller one.';
CREATE TRIGGER events_number BEFORE INSERT ON livebox.events FOR EACH ROW EXECUTE FUNCTION livebox.number_event();
COMMENT ON TRIGGER events_number ON livebox.events IS 'seq is the database''s.';

CREATE FUNCTION livebox.guard_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND OLD.seq <= (SELECT s.floor FROM livebox.log_state s) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the log is append-only above its floor' USING ERRCODE = 'LB001';
END $$;
COMMENT ON FUNCTION livebox.guard_event() IS 'Trigger: events stay as written, and leave only at or below the floor (LB001).';
CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON livebox.events FOR EACH ROW EXECUTE FUNCTION livebox.guard_event();
COMMENT ON TRIGGER events_append_only ON livebox.events IS 'Append-only above the floor.';
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON livebox.events FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_append_only();
COMMENT ON TRIGGER events_no_truncate ON livebox.events IS 'Append-only.';

-- ---------------------------------------------------------------------------------------------------------------------
-- Requests: idempotency, batches; tokens; audit; the service
-- ---------------------------------------------------------------------------------------------------------------------

CREATE TABLE livebox.idempotency_keys (
    principal_id  uuid NOT NULL REFERENCES livebox.principals (id),
    operation     text NOT NULL,
    key           text NOT NULL,
    request_hash  text NOT NULL,
    code          text NOT NULL CHECK (code IN ('ok', 'created', 'accepted', 'no_content')),
    resource_kind text NOT NULL,
    resource_id   text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT livebox.clock(),
    PRIMARY KEY (principal_id, operation, key)
);
COMMENT ON TABLE livebox.idempotency_keys IS 'What a key made, written with it. A repeat answers with the resource as it is now, under the rights of now.';
COMMENT ON COLUMN livebox.idempotency_keys.principal_id IS 'Who sent the request.';
COMMENT ON COLUMN livebox.idempotency_keys.operation IS 'The operation, by the name of its function.';
COMMENT ON COLUMN livebox.idempotency_keys.key IS 'The client''s key.';
COMMENT ON COLUMN livebox.idempotency_keys.request_hash IS 'SHA-256 of the canonical request.';
COMMENT ON COLUMN livebox.idempotency_keys.code IS 'What was answered.';
COMMENT ON COLUMN livebox.idempotency_keys.resource_kind IS 'What kind of thing it made.';
COMMENT ON COLUMN livebox.idempotency_keys.resource_id IS 'The thing.';
COMMENT ON COLUMN livebox.idempotency_keys.created_at IS 'When; kept for idempotency.retention.';
CREATE INDEX idempotency_keys_age ON livebox.idempotency_keys (created_at);
COMMENT ON INDEX livebox.idempotency_keys_age IS 'What retention removes next.';

CREATE TABLE livebox.lane_batches (
    batch      uuid PRIMARY KEY,
    answers    jsonb NOT NULL CONSTRAINT lane_batches_answers_no_null CHECK (NOT livebox.has_json_null(answers)),
    created_at timestamptz NOT NULL DEFAULT livebox.clock()
);
COMMENT ON TABLE livebox.lane_batches IS 'The answers of each committed batch of writes: tells what became of one whose COMMIT was not heard.';
COMMENT ON COLUMN livebox.lane_batches.batch IS 'The id that the lane gave the batch.';
COMMENT ON COLUMN livebox.lane_batches.answers IS 'What each operation answered, in order.';
COMMENT ON COLUMN livebox.lane_batches.created_at IS 'When; kept for lane.batch_retention.';
ALTER TABLE livebox.lane_batches ALTER COLUMN answers SET STORAGE EXTERNAL; -- short-lived: compressing costs more than it saves
CREATE INDEX lane_batches_age ON livebox.lane_batches (created_at);
COMMENT ON INDEX livebox.lane_batches_age IS 'What retention removes next.';

CREATE TABLE livebox.access_tokens (
    id           uuid PRIMARY KEY DEFAULT livebox.new_id(),
    principal_id uuid NOT NULL REFERENCES livebox.principals (id),
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT livebox.clock(),
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz,
    CHECK (expires_at > created_at)
);
COMMENT ON TABLE livebox.access_tokens IS 'Local bearer tokens. Only their SHA-256 is kept.';
COMMENT ON COLUMN livebox.access_tokens.id IS 'UUIDv7; what callers are known by.';
COMMENT ON COLUMN livebox.access_tokens.principal_id IS 'Whose it is.';
COMMENT ON COLUMN livebox.access_tokens.hash IS 'SHA-256 of the token.';
COMMENT ON COLUMN livebox.access_tokens.created_at IS 'When it was issued.';
COMMENT ON COLUMN livebox.access_tokens.expires_at IS 'From when it is refused.';
COMMENT ON COLUMN livebox.access_tokens.revoked_at IS 'When it was taken back.';
CREATE INDEX access_tokens_principal ON livebox.access_tokens (principal_id, id);
COMMENT ON INDEX livebox.access_tokens_principal IS 'The tokens of a principal.';

CREATE TABLE livebox.audit_log (
    id            uuid PRIMARY KEY DEFAULT livebox.new_id(),
    at            timestamptz NOT NULL DEFAULT livebox.clock(),
    principal_id  uuid NOT NULL REFERENCES livebox.principals (id),
    action        text NOT NULL,
    reason        text NOT NULL,
    resource_kind text NOT NULL,
    resource_id   uuid,
    channel_id    uuid REFERENCES livebox.channels (id)
);
COMMENT ON TABLE livebox.audit_log IS 'Who was denied what, when and why. Append-only. Managers of the channel read it, and owners.';
COMMENT ON COLUMN livebox.audit_log.id IS 'UUIDv7; the order of the list.';
COMMENT ON COLUMN livebox.audit_log.at IS 'When.';
COMMENT ON COLUMN livebox.audit_log.principal_id IS 'Who was denied.';
COMMENT ON COLUMN livebox.audit_log.action IS 'What was asked of authorize.';
COMMENT ON COLUMN livebox.audit_log.reason IS 'Its answer.';
COMMENT ON COLUMN livebox.audit_log.resource_kind IS 'What kind of thing it was about.';
COMMENT ON COLUMN livebox.audit_log.resource_id IS 'The thing, where it has an id.';
COMMENT ON COLUMN livebox.audit_log.channel_id IS 'Where; who manages that channel reads the entry.';
CREATE INDEX audit_log_channel ON livebox.audit_log (channel_id, id);
COMMENT ON INDEX livebox.audit_log_channel IS 'The entries of a channel, newest last.';
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON livebox.audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION livebox.guard_append_only();
COMMENT ON TRIGGER audit_log_append_only ON livebox.audit_log IS 'Entries stay as they were written.';

CREATE TABLE livebox.service (
    singleton       boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    available_since timestamptz NOT NULL DEFAULT livebox.clock(),
    touched_at      timestamptz NOT NULL DEFAULT livebox.clock()
);
COMMENT ON TABLE livebox.service IS
    'One row that every process touches: since when the service answers without a gap. Deadlines never count from before that.';
COMMENT ON COLUMN livebox.service.singleton IS 'Keeps the table at one row.';
COMMENT ON COLUMN livebox.service.available_since IS 'Since when there was no gap.';
COMMENT ON COLUMN livebox.service.touched_at IS 'When a process last said that it is there.';
INSERT INTO livebox.service DEFAULT VALUES;
