package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"keyfold/engine/profile"
	"keyfold/internal/testserver/mongotest"
	"keyfold/internal/testserver/must"
	"keyfold/internal/testserver/rabbittest"
	"keyfold/source/rabbit"
	"keyfold/source/sample"
)

// `status` and `config check --connect` name a policy by which the broker drops messages,
// with or without its statistics, and none by which it does not.
//
// Promise(rabbitmq/policies)
func TestPoliciesAreTold(t *testing.T) {
	t.Parallel()
	for name, broker := range map[string]*rabbittest.Broker{"without statistics": rabbittest.Shared(t), "with statistics": rabbittest.SharedWithStatistics(t)} {
		t.Run(name, func(t *testing.T) {
			vhost := broker.VHost(t)
			s := &stack{dsn: broker.DSN(vhost), mongo: mongotest.Start(t).URI(), products: sample.Products(), history: profile.Mass}
			s.setUp(t)
			names := rabbit.DefaultNames()
			told := func(text string, want bool) {
				t.Helper()
				for _, command := range [][]string{{"status"}, {"config", "check", "--connect", "--embedder=hash"}} {
					eventually(t, "the broker shows the policy", func() error {
						code, out, errs := s.run(t, "", append(command, "--rabbitmq-management-url", broker.ManagementURL())...)
						if got := strings.Contains(out+errs, text); got != want || want && code != 1 {
							return fmt.Errorf("%v: told %t, want %t, exit code %d:\n%s%s", command, got, want, code, out, errs)
						}
						return nil
					})
				}
			}
			told("a policy sets", false)
			broker.SetPolicy(t, vhost, ".*", `{"message-ttl":3600000,"max-length":1000}`)
			told("a policy sets message-ttl, max-length on queue "+names.DeadLetters, true)
			told("on queue "+names.Queue+":", false) // it has its net
			if strings.HasPrefix(name, "with ") && !long {
				return // what follows is the policy's, not the broker's
			}
			conn, hangUp := s.channel(t)
			defer hangUp()
			_, err := conn.QueueDelete(names.Queue, false, false, false)
			_, again := conn.QueueDeclare(names.Queue, true, false, false, false, map[string]any{"x-queue-type": "classic", "x-max-priority": int32(10)})
			must.OK(t, errors.Join(err, again))
			told("a policy sets message-ttl, max-length on queue "+names.Queue+":", true)
			code, out, errs := s.run(t, "", "setup")
			if code != 0 || !strings.Contains(out, "set_policy -p "+vhost) {
				t.Errorf("setup: %d, %s%s", code, out, errs)
			}
			delay := names.RetryQueue(rabbit.RetryDelays(5*time.Second, 5)[0])
			broker.SetPolicy(t, vhost, ".*", `{"max-length":1000,"overflow":"drop-head"}`)
			told("a policy sets max-length on queue "+delay+":", true) // the policy is stronger than the argument
			broker.SetPolicy(t, vhost, ".*", `{"message-ttl":3600000,"expires":86400000}`)
			told("a policy sets expires on queue "+delay+":", true)
			broker.ClearPolicy(t, vhost)
			told("a policy sets", false)
		})
	}
}
