package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"

	"keyfold/source/sample"
)

// An idle worker whose store hangs has nothing to write.
func TestStopIdleWithAHangingStore(t *testing.T) {
	t.Parallel()
	for name, impair := range map[string]func(*testing.T, *impaired){
		"hangs":   func(t *testing.T, i *impaired) { must.OK(t, i.store.Pause(0)) },
		"refuses": func(t *testing.T, i *impaired) { must.OK(t, i.store.RefuseConnections(0), i.store.Disconnect()) },
	} {
		t.Run(name, func(t *testing.T) {
			i := newImpaired(t)
			p := i.program(t, quick, fmt.Sprintf("--shutdown-timeout=%v", limit))
			impair(t, i)
			p.signal(syscall.SIGTERM)
			if code := p.exit(); code != 0 {
				t.Errorf("exit code %d\n%s", code, p.log)
			}
			i.repaired(t)
		})
	}
}

// SIGTERM while the store's breaker is open: what is held goes back, at once.
func TestStopWithTheBreakerOpen(t *testing.T) {
	i := newImpaired(t)
	p := i.program(t, quick, fmt.Sprintf("--shutdown-timeout=%v", limit))
	must.OK(t, i.store.RefuseConnections(0), i.store.Disconnect())
	bodies := sample.Events(sample.DefaultConfig(20))
	i.publish(t, bodies...)
	p.opened()
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 || !strings.Contains(p.log.String(), `"worker stopped"`) {
		t.Errorf("exit code %d\n%s", code, p.log)
	}
	s := i.repaired(t)
	s.work(t, quick).ready()
	s.settled(t, s.expect(t, bodies))
}

// SIGTERM before the worker is ready: no store, or no broker.
func TestStopBeforeReady(t *testing.T) {
	t.Parallel()
	t.Run("no store", func(t *testing.T) {
		t.Parallel()
		broker := rabbittest.Shared(t)
		store := mongotest.Start(t)
		must.OK(t, store.RefuseConnections(0))
		s := &stack{dsn: broker.DSN(broker.VHost(t)), mongo: store.URI(), history: profile.Mass}
		p := s.command(t, quick)
		p.command.Stderr = p.log
		p.start()
		eventually(t, "started", func() error {
			if !strings.Contains(p.log.String(), "admin endpoint") {
				return errors.New("not yet")
			}
			return nil
		})
		p.signal(syscall.SIGTERM)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.log)
		}
	})
	t.Run("broker frozen", func(t *testing.T) {
		i := newImpaired(t)
		i.proxy.Freeze()
		p := i.command(t, quick)
		p.command.Stderr = p.log
		p.start()
		eventually(t, "working", func() error {
			if !strings.Contains(p.log.String(), `"worker started"`) {
				return errors.New("not yet")
			}
			return nil
		})
		p.signal(syscall.SIGTERM)
		if code := p.exit(); code != 0 {
			t.Errorf("exit code %d\n%s", code, p.log)
		}
	})
}
