package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"keyfold/proof/stack"
)

// composeProject is the name of the run's own containers, networks and volumes.
const composeProject = "keyfold-soak"

// compose runs Docker Compose and returns what it prints on its output.
func (s *composition) compose(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	c := exec.CommandContext(ctx, s.Program, append([]string{"-p", composeProject}, args...)...)
	c.Env = append(os.Environ(), "COMPOSE_PROFILES="+strings.Join(s.profiles, ","))
	if s.partitions != "" {
		c.Env = append(c.Env, "RABBITMQ_PARTITIONS="+s.partitions)
	}
	return output(c, stdin)
}

func docker(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "docker", args...), nil)
}

// output runs a command to its end. The error has all that it printed.
func output(c *exec.Cmd, stdin io.Reader) (string, error) {
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr, c.WaitDelay = stdin, &out, &errs, 5*time.Second
	err := c.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(c.Args, " "), err, out.String(), errs.String())
	}
	return out.String(), err
}

// keyfold runs a command of keyfold in a container of its own, which knows all that runs.
func (s *composition) keyfold(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	service := "worker"
	if slices.Contains(s.profiles, "notify") {
		service = "notify-worker"
	}
	return s.compose(ctx, stdin, append([]string{"run", "--rm", "--no-deps", "-T", service}, args...)...)
}

// up starts all services of the profiles with so many workers, and waits until they are healthy.
func (s *composition) up(ctx context.Context, workers int) error {
	names, err := s.compose(ctx, nil, "config", "--services")
	if err != nil {
		return err
	}
	services := slices.DeleteFunc(strings.Fields(names), func(name string) bool { return slices.Contains(s.Without, name) })
	began := time.Now()
	args := []string{"up", "--detach", "--wait", "--wait-timeout=300", fmt.Sprint("--scale=worker=", workers)}
	if s.token == "" { // the first time
		args = append(args, "--build")
	}
	if _, err := s.compose(ctx, nil, append(args, services...)...); err != nil {
		return err
	}
	s.say("%d services are up after %.0f s", len(services), time.Since(began).Seconds())
	s.token, err = s.compose(ctx, nil, "exec", "-T", "ingest", "cat", "/token/tokens")
	s.token = strings.TrimSpace(s.token)
	return err
}

// scale has so many workers run.
func (s *composition) scale(ctx context.Context, workers int) error {
	_, err := s.compose(ctx, nil, "up", "--detach", "--wait", "--wait-timeout=300", "--no-deps", fmt.Sprint("--scale=worker=", workers), "worker")
	return err
}

// cut takes a worker off the network for a while. It comes back by the name of its service.
func (s *composition) cut(ctx context.Context, away time.Duration) error {
	ids, err := s.compose(ctx, nil, "ps", "--quiet", "worker")
	if err != nil {
		return err
	}
	workers := strings.Fields(ids)
	if len(workers) != 5 {
		return fmt.Errorf("there are %d workers, and 5 were asked for", len(workers))
	}
	worker, network := workers[0], composeProject+"_default"
	if _, err := docker(ctx, "network", "disconnect", network, worker); err != nil {
		return err
	}
	s.say("a worker is off the network for %v", away)
	waitErr := stack.Wait(ctx, away)
	_, err = docker(ctx, "network", "connect", "--alias=worker", network, worker)
	return errors.Join(waitErr, err)
}

// load imports the products of the events.
func (s *composition) load(ctx context.Context) error {
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, p := range s.traffic.products {
		_ = encode.Encode(map[string]any{"product_id": p.ID, "product_name": p.Name, "category": p.Category}) // into memory: it cannot fail
	}
	_, err := s.keyfold(ctx, &lines, "products", "import", "-", "--embed")
	return err
}

// status waits until `keyfold status` says that nothing needs a person, has asked all processes of
// the profiles, and finds the queues empty.
func (s *composition) status(ctx context.Context) error {
	processes, missing := 5+2, 3 // workers, ingest, serve; partition, notify-api and notify-worker
	if len(s.profiles) > 0 {
		processes, missing = processes+missing, 0
	}
	ctx, cancel := context.WithTimeout(ctx, restLimit)
	defer cancel()
	var out string
	err := stack.Poll(ctx, time.Second, func() (bool, error) {
		var r statusReport
		var err error
		out, err = s.keyfold(context.WithoutCancel(ctx), nil, "status", "--output=json")
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
			return false, nil // a problem
		}
		if err == nil {
			err = json.Unmarshal([]byte(out), &r)
		}
		return err == nil && len(r.Processes) == processes && len(r.Notes) == missing && idle(&r), err
	})
	if err != nil {
		return fmt.Errorf("status: %w\n%s", err, out)
	}
	s.say("status: %d processes are ready, %d of profiles that are off are noted, nothing needs a person", processes, missing)
	return nil
}

// statusReport is what this test reads of the JSON of `keyfold status`.
type statusReport struct {
	Queues []struct {
		Holds          string `json:"holds"`
		Ready          int    `json:"ready"`
		Unacknowledged *int   `json:"unacknowledged"`
	} `json:"queues"`
	Outbox *struct {
		Unsent int64 `json:"unsent"`
	} `json:"outbox"`
	Processes []json.RawMessage `json:"processes"`
	Notes     []string          `json:"notes"`
}

// idle reports whether nothing waits for keyfold.
func idle(r *statusReport) bool {
	for _, q := range r.Queues {
		if q.Holds == "events" && (q.Ready > 0 || q.Unacknowledged == nil || *q.Unacknowledged > 0) {
			return false
		}
	}
	return r.Outbox != nil && r.Outbox.Unsent == 0
}

// show reads a profile, whose count of events is the ledger's.
func (s *composition) show(ctx context.Context) error {
	for user, events := range s.ledger.events {
		out, err := s.keyfold(ctx, nil, "user", "show", fmt.Sprint(user), "--output=json")
		if err != nil {
			return err
		}
		var profile struct {
			Events int `json:"event_count"`
		}
		if err = json.Unmarshal([]byte(out), &profile); err == nil && profile.Events != len(events) {
			err = fmt.Errorf("it has not the %d events that were posted", len(events))
		}
		if err != nil {
			return fmt.Errorf("user show %d: %w\n%s", user, err, out)
		}
		return s.recommends(ctx, user)
	}
	return errors.New("there is no user")
}

// recommends waits until `serve`, which follows the catalogue, recommends products by a user's
// profile.
func (s *composition) recommends(ctx context.Context, user int32) error {
	path := fmt.Sprintf("http://%s/v1/users/%d/recommendations?k=3&explain=true", composeServe, user)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	var last error
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = stack.Poll(ctx, time.Second, func() (bool, error) {
		last = recommended(request)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("recommendations of user %d: %w: %w", user, err, last)
	}
	return nil
}

// recommended returns what is wrong with an answer.
func recommended(request *http.Request) error {
	response, err := posting.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var answer struct {
		Basis    string
		Products []json.RawMessage `json:"recommendations"`
	}
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil || answer.Basis != "profile" || len(answer.Products) != 3 {
		return fmt.Errorf("%s: %s: %w", response.Status, text, errors.Join(err, errors.New("it is not 3 products by the profile")))
	}
	return nil
}

// tell prints how the containers stand, and their last lines.
func (s *composition) tell() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	states, _ := s.compose(ctx, nil, "ps", "--all") // the run's own fault is told anyhow
	logs, _ := s.compose(ctx, nil, "logs", "--tail=15")
	fmt.Fprintln(os.Stdout, states+logs)
}

// down removes the containers, networks and volumes of all profiles.
func (s *composition) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	profiles := s.profiles
	s.profiles = []string{"*"}
	_, err := s.compose(ctx, nil, "down", "--volumes", "--timeout=20", "--remove-orphans")
	s.profiles = profiles
	return err
}

// rules counts what deploy/alerts.yml has.
func rules() (int, error) {
	text, err := os.ReadFile(filepath.Join("deploy", "alerts.yml"))
	return strings.Count(string(text), "- alert:") + strings.Count(string(text), "- record:"), err
}
