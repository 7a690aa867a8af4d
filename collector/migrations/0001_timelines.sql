CREATE TABLE timelines (
    id TEXT NOT NULL PRIMARY KEY,
    -- Number of the last change; it grows over the whole table, so that a watcher asks for what is newer than it has.
    change INTEGER NOT NULL UNIQUE,
    node TEXT NOT NULL,
    -- Empty while unknown, as the API's filters have it.
    namespace TEXT NOT NULL,
    workload TEXT NOT NULL,
    -- Wall time of exec; of the first update where exec was not seen, so that every timeline has its place in a list.
    exec_at_ns INTEGER NOT NULL,
    -- Run of the agent that sent the last update.
    agent TEXT NOT NULL,
    -- 1 once a verdict or an exit says that no more is to come.
    settled INTEGER NOT NULL,
    ready_ns INTEGER,
    first_request_ns INTEGER,
    updated_at_ns INTEGER NOT NULL,
    -- Chunks that hold the timeline.
    chunks INTEGER NOT NULL,
    -- Encoded Timeline without intervals, requests and connections.
    summary BLOB NOT NULL
) STRICT;

-- The whole timelines. Encoded updates one after the other are the encoded whole, so an update is appended as it came,
-- at a cost that does not grow with the timeline.
CREATE TABLE chunks (
    timeline TEXT NOT NULL REFERENCES timelines (id),
    number INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (timeline, number)
) STRICT;

CREATE INDEX timelines_by_exec ON timelines (exec_at_ns DESC, id);
CREATE INDEX timelines_of_agent ON timelines (agent) WHERE settled = 0;
CREATE INDEX timelines_durations ON timelines (namespace, workload, ready_ns, first_request_ns);

CREATE TABLE agents (
    -- One run of an agent.
    instance TEXT NOT NULL PRIMARY KEY,
    node TEXT NOT NULL,
    -- Written in the transaction that stores the update of this number.
    last_sequence INTEGER NOT NULL,
    updated_at_ns INTEGER NOT NULL,
    -- Encoded AgentStats, the latest. NULL until the first.
    stats BLOB
) STRICT;
