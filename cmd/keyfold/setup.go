package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"keyfold/cmd/keyfold/app"
	"keyfold/engine"
	"keyfold/internal/cli"
	"keyfold/sink/mongodb"
	"keyfold/source/outbox"
	"keyfold/source/rabbit/topology"
)

// setupCmd creates what the daemon needs on its servers.
type setupCmd struct {
	ForeignKeys bool   `help:"Add foreign keys from user_interactions to the tables users and products, which must exist."`
	Shard       bool   `help:"Shard user_embeddings by user_id; MONGODB_URI leads to a mongos (docs/SCALING.md)."`
	Adopt       string `placeholder:"TABLE" help:"Take over a table of the shop's: user_interactions in place, messenger_outbox by copying (docs/howto/adopt-a-table.md)."`
	Backfill    bool   `name:"adopt-backfill" help:"With --adopt: leave what the shop has not published to keyfold backfill."`
	Print       string `placeholder:"DATABASE" help:"Print the SQL for mysql, mariadb, postgres or sqlite and change nothing."`
}

// Help is the long text.
func (c *setupCmd) Help() string {
	return `All servers are set up, also where one failed: one call names every fault, and the same command
goes on once they are cured. -o json prints one object; what was not set up is null there. Another
WORKER_RETRY_DELAY or WORKER_MAX_RETRIES adds retry queues; the old ones stay. So do the queues of
another number of partitions: they are listed, with the commands that delete them. Without
--partitions and RABBITMQ_PARTITIONS the broker keeps the number of partitions that it has;
--partitions 0 goes back to one queue.

Examples:
  keyfold setup
  keyfold setup --partitions 16
  DATABASE_URL=mysql://user:password@127.0.0.1:3306/keyfold keyfold setup
  DATABASE_URL=postgres://user:password@127.0.0.1:5432/keyfold keyfold setup
  keyfold setup --print mysql --foreign-keys
  keyfold setup --adopt user_interactions
  MONGODB_URI=mongodb://mongos1,mongos2/ keyfold setup --shard`
}

func (c *setupCmd) Check(a *app.App) error {
	if c.Print != "" {
		_, err := c.sql(c.Print)
		return err
	}
	faults := []error{a.CheckBroker(), a.CheckStore(), c.checkAdopt(a.Servers.SQL)}
	if a.Servers.SQL != "" {
		faults = append(faults, a.CheckDatabase())
	}
	if c.ForeignKeys {
		faults = append(faults, c.checkForeignKeys(a.Servers.SQL))
	}
	return errors.Join(faults...)
}

func (c *setupCmd) checkAdopt(url string) error {
	switch {
	case c.Adopt == "" && c.Backfill:
		return errors.New("--adopt-backfill is about a table that is taken over: name it with --adopt")
	case c.Adopt == "":
		return nil
	case url == "":
		return errors.New("--adopt is about the database, and DATABASE_URL is not set: set it")
	}
	return outbox.CheckAdopt(c.Adopt)
}

func (c *setupCmd) checkForeignKeys(url string) error {
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "":
		return errors.New("--foreign-keys is about the database, and DATABASE_URL is not set: set it, or leave the flag out")
	case "sqlite", "sqlite3", "file":
		_, err := c.sql(outbox.SQLite)
		return err
	}
	return nil
}

func (c *setupCmd) sql(kind string) (string, error) {
	return outbox.SQL(kind, outbox.SetupOptions{ForeignKeys: c.ForeignKeys})
}

// setUp is what is there now; nil where it could not be set up, or was not asked
// for.
type setUp struct {
	RabbitMQ *queuesSetUp `json:"rabbitmq"`
	MongoDB  *storeSetUp  `json:"mongodb"`
	SQL      *tablesSetUp `json:"sql"`
}

// queuesSetUp are the names of queues and exchanges. With partitions, Queue takes the
// events of publishers that know no slot.
type queuesSetUp struct {
	Exchange    string   `json:"exchange"`
	Queue       string   `json:"queue"`
	DeadLetters string   `json:"dead_letter_queue"`
	Retries     []string `json:"retry_queues"`
	Slots       string   `json:"slots_exchange,omitempty"`
	Partitions  []string `json:"partition_queues,omitempty"`
	Uneven      string   `json:"uneven_partitions,omitempty"`
	Streams     []string `json:"streams,omitempty"`

	StreamExchange string `json:"stream_exchange,omitempty"`

	WithoutNet string `json:"net_command,omitempty"` // gives the queue of an earlier version its net

	Retired  []topology.RetiredQueue `json:"retired_queues,omitempty"`
	Commands []string                `json:"retired_commands,omitempty"`
}

type storeSetUp struct {
	Database    string   `json:"database"`
	Collections []string `json:"collections"`
	ShardKey    string   `json:"shard_key,omitempty"` // of user_embeddings, with --shard
	Notices     []string `json:"notices"`
}

type tablesSetUp struct {
	Tables  []string        `json:"tables"`
	Adopted *outbox.Adopted `json:"adopted,omitempty"`
}

// Run sets up all servers, the next one also where one failed, so that one call
// names every fault.
func (c *setupCmd) Run(a *app.App) error {
	if c.Print != "" {
		text, err := c.sql(c.Print)
		if err != nil {
			return err
		}
		return a.Emit(map[string]string{"sql": text}, func(w *cli.Text) { _, w.Err = io.WriteString(w.W, text) })
	}
	var done setUp
	var faults [3]error
	done.RabbitMQ, faults[0] = c.broker(a)
	done.MongoDB, faults[1] = c.store(a)
	done.SQL, faults[2] = c.database(a)
	return errors.Join(append(faults[:], a.Emit(&done, func(w *cli.Text) { done.print(w, a.Servers.SQL == "") }))...)
}

func (s *setUp) print(w *cli.Text, noDatabase bool) {
	if q := s.RabbitMQ; q != nil {
		q.print(w)
	}
	if m := s.MongoDB; m != nil {
		for _, notice := range m.Notices {
			w.Line("MongoDB: %s", notice)
		}
		w.Line("MongoDB: database %s, collections %s, indexes", m.Database, strings.Join(m.Collections, " and "))
		if m.ShardKey != "" {
			w.Line("MongoDB: user_embeddings is sharded by %s; product_embeddings stays as it is", m.ShardKey)
		}
	}
	switch {
	case s.SQL != nil:
		printAdopted(w, s.SQL.Adopted)
		w.Line("SQL: tables %s", strings.Join(s.SQL.Tables, " and "))
	case noDatabase:
		w.Line("SQL: none (DATABASE_URL is not set; ingest and relay need one)")
	}
}

func (q *queuesSetUp) print(w *cli.Text) {
	w.Line("RabbitMQ: exchange %s, queues %s and %s", q.Exchange, q.Queue, q.DeadLetters)
	if n := len(q.Partitions); n > 0 {
		w.Line("RabbitMQ: exchange %s, %s: queues %s to %s", q.Slots, cli.Count(int64(n), "partition"), q.Partitions[0], q.Partitions[n-1])
	}
	if n := len(q.Streams); n > 0 {
		w.Line("RabbitMQ: exchange %s, %s: %s to %s", q.StreamExchange, cli.Count(int64(n), "stream"), q.Streams[0], q.Streams[n-1])
	}
	if q.Uneven != "" {
		w.Line("RabbitMQ: %s", q.Uneven)
	}
	w.Line("RabbitMQ: retry queues %s; those of an earlier WORKER_RETRY_DELAY stay, and their messages come back",
		strings.Join(q.Retries, ", "))
	if q.WithoutNet != "" {
		w.Line("RabbitMQ: queue %s is of an earlier version: a policy with message-ttl or max-length drops its events in silence. This policy, in place of any other of the queue, keeps them:", q.Queue)
		w.Line("  %s", q.WithoutNet)
	}
	if len(q.Retired) > 0 {
		w.Line("RabbitMQ: %s of another number of partitions; docs/UPGRADE.md says when they may be deleted:", cli.Count(int64(len(q.Retired)), "queue"))
		for _, command := range q.Commands {
			w.Line("  %s", command)
		}
	}
}

func (c *setupCmd) broker(a *app.App) (*queuesSetUp, error) {
	config, err := a.SetupBroker()
	if err != nil {
		return nil, err
	}
	names := config.Names
	retired, err := topology.Retired(a.Ctx, a.Servers.RabbitMQ, config)
	if err != nil {
		return nil, app.BrokerUnreached(err)
	}
	withoutNet, err := topology.WithoutNet(a.Ctx, a.Servers.RabbitMQ, config)
	if err != nil {
		return nil, app.BrokerUnreached(err)
	}
	done := &queuesSetUp{
		WithoutNet: withoutNet,
		Exchange:   names.Exchange, Queue: names.Queue, DeadLetters: names.DeadLetters,
		Retired: retired, Commands: topology.RetiredCommands(a.Servers.RabbitMQ, retired),
	}
	retry := names.RetryQueue
	if config.Partitions > 0 {
		done.Queue, done.Slots, retry = names.CommonQueue(), names.Slots, names.RetryExchange
	}
	for _, delay := range config.RetryDelays {
		done.Retries = append(done.Retries, retry(delay))
	}
	if config.Streams > 0 {
		done.StreamExchange = names.StreamExchange()
		if done.Streams, err = topology.Streams(a.Ctx, a.Servers.RabbitMQ, names); err != nil {
			return nil, app.BrokerUnreached(err)
		}
	}
	done.Uneven = uneven(config.Partitions)
	for i := range config.Partitions {
		done.Partitions = append(done.Partitions, names.PartitionQueue(i))
	}
	return done, nil
}

// uneven says which partitions have more slots than others, "" where all have as many.
func uneven(partitions int) string {
	if partitions == 0 || engine.Slots%partitions == 0 {
		return ""
	}
	more := engine.Slots % partitions
	return fmt.Sprintf("%d slots over %d partitions: %d of them have %d slots of users, the others %d; a power of two spreads users evenly",
		engine.Slots, partitions, more, engine.Slots/partitions+1, engine.Slots/partitions)
}

func (c *setupCmd) store(a *app.App) (*storeSetUp, error) {
	done := &storeSetUp{
		Database:    a.Servers.Database,
		Collections: []string{"user_embeddings", "product_embeddings"},
		Notices:     []string{},
	}
	err := a.WithStore(func(store *mongodb.Store) (err error) {
		var notices []string
		if c.Shard {
			done.ShardKey, notices, err = store.SetupSharded(a.Ctx)
		} else {
			notices, err = store.Setup(a.Ctx)
		}
		done.Notices = append(done.Notices, notices...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return done, nil
}

// database sets up the SQL schema, where there is a database.
func (c *setupCmd) database(a *app.App) (*tablesSetUp, error) {
	if a.Servers.SQL == "" {
		return nil, nil
	}
	adopted, err := c.adopt(a)
	if err != nil {
		return nil, err
	}
	if err := a.SetupDatabase(outbox.SetupOptions{ForeignKeys: c.ForeignKeys}); err != nil {
		return nil, err
	}
	return &tablesSetUp{Tables: []string{"user_interactions", "keyfold_relay_shards"}, Adopted: adopted}, nil
}
