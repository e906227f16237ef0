package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	mongotest "keyfold/bench/testserver/mongodb"
)

// store is a mongotestd on a journal, or a server that somebody else runs.
type store struct {
	program, data string
	address       string // "" for somebody else's
	direct        string // its URI
	child         *child
	log           *os.File
}

// startStore starts a test server in dir.
func startStore(program, dir string) (*store, error) {
	log, err := os.Create(filepath.Join(dir, "store.log"))
	if err != nil {
		return nil, err
	}
	s := &store{program: program, data: filepath.Join(dir, "journal"), address: "127.0.0.1:0", log: log}
	return s, s.boot()
}

// boot starts the server where it was before, if it was.
func (s *store) boot() error {
	command := exec.Command(s.program, "--addr", s.address, "--data", s.data)
	command.Stderr = s.log
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	defer out.Close()
	command.Stdout = in
	s.child, err = spawn(command)
	in.Close()
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the store did not start: see %s: %w", s.log.Name(), err)
	}
	parsed, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		return err
	}
	s.address = parsed.Host
	s.direct = uri(s.address)
	return nil
}

// uri reaches a server as if it were alone, so that a relay in front of it is
// not gone round.
func uri(address string) string { return "mongodb://" + address + "/?directConnection=true" }

// own reports whether the server is a test server of this run.
func (s *store) own() bool { return s.address != "" }

// control has the test server do something.
func (s *store) control(do func(*mongotest.Remote) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	r, err := mongotest.Dial(ctx, s.address)
	if err != nil {
		return err
	}
	return errors.Join(do(r), r.Close())
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

func (s *store) close() {
	if s.own() {
		s.child.kill()
		s.log.Close()
	}
}
