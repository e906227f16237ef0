package main

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/internal/testserver/mongotest"
)

// store is a mongotestd on a journal, or a real server that --mongodb-uri names.
type store struct {
	*mongotest.Process // nil for a real server
}

// uri reaches a server as if it were alone, so that a relay in front of it is
// not gone round.
func uri(address string) string { return "mongodb://" + address + "/?directConnection=true" }

// own reports whether the server is a test server of this run.
func (s *store) own() bool { return s.Process != nil }

// control has the test server do something.
func (s *store) control(do func(*mongotest.Remote) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := mongotest.Dial(ctx, s.Address())
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
}

// inject has the test server do something wrong.
func (s *store) inject(f mongotest.Fault) error {
	return s.control(func(r *mongotest.Remote) error {
		_, err := r.Inject(f)
		return err
	})
}

// failConcern has the next n of these commands meet no majority. It takes the
// place of one that is still in force.
func (s *store) failConcern(commands []string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return mongotest.SetFailCommand(ctx, s.URI(), bson.M{"times": n}, bson.M{
		"failCommands": commands, "writeConcernError": bson.M{"code": 64, "errmsg": "waiting for replication timed out"},
	})
}

// failOver rolls back what is written within d. While replication is stalled no
// write is promised to anybody.
func (s *store) failOver(d time.Duration) error {
	return s.control(func(r *mongotest.Remote) error {
		if err := r.StallReplication(); err != nil {
			return err
		}
		time.Sleep(d)
		_, err := r.Rollback()
		return err
	})
}

// heal ends everything that was done to the server.
func (s *store) heal() error {
	return s.control(func(r *mongotest.Remote) error {
		return errors.Join(r.Remove(0), r.Replicate(), r.StepUp(), r.Resume(), r.AcceptConnections())
	})
}
