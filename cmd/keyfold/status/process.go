package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"keyfold/cmd/keyfold/reach"
	"keyfold/engine/metric"
	"keyfold/service/status"
)

// addresses replaces each name by all addresses it stands for: a service of Kubernetes
// without an address of its own has one name for all its pods. That an address with the mark
// [reach.MayBeMissing] stands for none is a note.
func addresses(ctx context.Context, given []string) (all []string, problems []status.Problem, notes []string) {
	for _, address := range given {
		address, mayBeMissing := strings.CutSuffix(address, reach.MayBeMissing)
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			continue // Check has told
		}
		resolved, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil && mayBeMissing {
			notes = append(notes, address+" stands for no process now: "+err.Error())
			continue
		}
		if err != nil {
			problems = append(problems, status.Problem{
				About: address, Text: "the name stands for no process now: " + err.Error(),
				Cure: "check that the process runs, and that STATUS_PROCESSES is right", Runbook: "keyfolddown",
			})
			continue
		}
		found := oneFamily(resolved)
		if len(found) == 1 {
			all = append(all, address)
			continue
		}
		for _, ip := range found {
			all = append(all, net.JoinHostPort(ip, port))
		}
	}
	return slices.Compact(all), problems, notes
}

// oneFamily returns the addresses of one family, of IPv4 where there are any: a process that
// has one of each, as localhost may, is asked once.
func oneFamily(found []netip.Addr) (all []string) {
	is4 := func(ip netip.Addr) bool { return ip.Unmap().Is4() }
	either := slices.ContainsFunc(found, is4)
	for _, ip := range found {
		if is4(ip) == either {
			all = append(all, ip.Unmap().String())
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// lookAtProcesses asks all processes at once. before are the figures of the look before, by
// address.
func lookAtProcesses(ctx context.Context, addresses []string, before map[string]map[string]float64) []status.Process {
	processes := make([]status.Process, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() { processes[i] = lookAt(ctx, address, before[address]) })
	}
	all.Wait()
	return processes
}

func lookAt(ctx context.Context, address string, before map[string]float64) status.Process {
	p := status.Process{Address: address, Remarks: []string{}, Open: []string{}, Roles: []string{}}
	ready, err := get(ctx, address, "/readyz")
	if err == nil {
		var page *answer
		if page, err = get(ctx, address, "/metrics"); err == nil {
			p.Figures, err = metric.Parse(strings.NewReader(page.text))
		}
	}
	if err != nil {
		p.Error, p.Slow = err.Error(), listens(err)
		return p
	}
	if p.Ready = ready.code == http.StatusOK; !p.Ready {
		p.Reason = strings.ReplaceAll(strings.TrimSpace(ready.text), "\n", "; ")
	} else if _, remarks, more := strings.Cut(strings.TrimSpace(ready.text), "\n"); more {
		p.Remarks = strings.Split(remarks, "\n")
	}
	if off := ready.clock.Round(time.Second); off != 0 {
		p.Remarks = append(p.Remarks, fmt.Sprintf("clock: it is %s this machine's: ages, waits and times are told wrong; have both machines follow one source of time (NTP)", ahead(off)))
	}
	read(&p, before)
	return p
}

// listens reports whether a process took the connection and gave no answer in time: one that
// is gone refuses it.
func listens(err error) bool {
	failed, ok := errors.AsType[*url.Error](err)
	if !ok || !failed.Timeout() {
		return false
	}
	op, ok := errors.AsType[*net.OpError](err)
	return !ok || op.Op != "dial"
}

// roles are told by a family of metrics that no other role has.
var roles = map[string]string{
	"keyfold_profile_writes_total":             "worker",
	"keyfold_notify_deferrals_claimed":         "notify worker",
	"keyfold_relay_batches_total":              "relay",
	"keyfold_notify_posted_total":              "notify API",
	"keyfold_outbox_store_requests_total":      "ingest",
	"keyfold_partitioned_batches_total":        "partition",
	"keyfold_recommend_duration_seconds_count": "serve",
}

var label = regexp.MustCompile(`(dependency|version)="([^"]*)"`)

// read takes what the screen shows out of the figures.
func read(p *status.Process, before map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(p.Figures)) {
		family, _, _ := strings.Cut(name, "{")
		value := p.Figures[name]
		if role, known := roles[family]; known && !slices.Contains(p.Roles, role) {
			p.Roles = append(p.Roles, role)
		}
		found := label.FindStringSubmatch(name)
		switch {
		case family == "keyfold_rabbitmq_in_hand":
			p.InHand += int64(value)
		case family == "keyfold_short_half_life_seconds":
			p.ShortHalfLife = &value
		case family == "keyfold_build_info" && found != nil:
			p.Version = found[2]
		case family == "keyfold_breaker_open" && found != nil && value == 1:
			p.Open = append(p.Open, found[2])
		}
	}
	p.Lag99 = metric.Quantile(p.Figures, before, "keyfold_event_to_profile_seconds", 0.99)
}

var client = http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

// maxPage bounds what is read of a process: another program may listen there.
const maxPage = 4 << 20

// answer is what a process says on a path.
type answer struct {
	code  int
	text  string
	clock time.Duration // how far its clock is ahead of this machine's, for sure; 0: by no more than 2 s
}

func get(ctx context.Context, address, path string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	a := &answer{code: res.StatusCode, clock: clockOff(res.Header.Get("Date"), began, time.Now())}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPage))
	if err == nil && res.StatusCode != http.StatusOK && res.StatusCode != http.StatusServiceUnavailable {
		err = fmt.Errorf("%s answers %s: is it the ADMIN_ADDR of a process of keyfold?", path, res.Status)
	}
	if err != nil {
		return nil, err
	}
	a.text = string(body)
	return a, nil
}

// clockOff returns how far a clock is ahead of this machine's at least, by a Date header, which has
// whole seconds, of an answer that was written between two times. Up to 2 s are 0.
func clockOff(date string, began, ended time.Time) time.Duration {
	const bearable = 2 * time.Second
	said, err := http.ParseTime(date)
	if err != nil {
		return 0
	}
	if early := said.Sub(ended); early > bearable {
		return early
	}
	if late := said.Add(time.Second).Sub(began); late < -bearable {
		return late
	}
	return 0
}

// ahead writes "5s ahead of" or "5s behind".
func ahead(off time.Duration) string {
	if off < 0 {
		return (-off).String() + " behind"
	}
	return off.String() + " ahead of"
}
