package report

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"keyfold/internal/cli"
	"keyfold/internal/testserver/must"
)

// quiet is a machine that does nothing else.
var quiet = Machine{Cores: 2, CPU: "test CPU", MemoryMiB: 2048, Load: 0.5}

// example is a report that is the same each time.
func example(m Machine) *Report {
	r := on(m, "load", []string{"go", "run", "./bench", "load", "--env", "A=b c", "--rabbitmq-dsn=amqp://guest:s3cret@host/"})
	r.Started = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	r.Versions = []Named{{"keyfold", "devel"}}
	r.Version("RabbitMQ", "")
	r.Settings = []Named{{"rate", "1000/min"}}
	l := NewLatencies()
	for i := range 1000 {
		l.Add(time.Duration(i+1) * time.Millisecond)
	}
	r.Load(Load{PerMinute: 1000, Workers: 3, Published: 1000, Folded: 1000, ToProfile: l, QueueDepth: []int{0, 7, 2}})
	for i, rate := range []float64{900, 1100.4, 1000} {
		r.Of("one queue")("rate", "events/s", rate)
		r.Of("16 partitions")("rate", "events/s", rate*1.5)
		r.Of("16 partitions")("conflicts", "", float64(i))
		r.Of("one queue")("conflicts", "", float64(2*i))
	}
	r.Expect(false, "memory grew")
	r.Series = []*Series{
		{Name: "queue", Of: "ready", Unit: "events", Seconds: []float64{0, 1, 2}, Values: []float64{0, 7, 2}},
		{Name: "memory", Of: "work", Unit: "MiB", Seconds: []float64{1, 900}, Values: []float64{50, 60}},
	}
	return r
}

func text(t *testing.T, r *Report) string {
	t.Helper()
	var out bytes.Buffer
	w := cli.Text{W: &out}
	if r.Text(&w); w.Err != nil {
		t.Fatal(w.Err)
	}
	return out.String()
}

// golden compares with a file of testdata, which KEYFOLD_UPDATE=1 writes anew.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("KEYFOLD_UPDATE") != "" {
		must.OK(t, os.WriteFile(path, []byte(got), 0o600))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s is not what is printed (KEYFOLD_UPDATE=1 writes it): %v\n%s", path, err, got)
	}
}

func TestPrinted(t *testing.T) {
	for name, m := range map[string]Machine{"quiet": quiet, "disturbed": {Cores: 2, Load: 4.01}} {
		r := example(m)
		golden(t, name+".txt", text(t, r))
		line, err := json.MarshalIndent(r, "", "  ")
		must.OK(t, err)
		golden(t, name+".json", string(line)+"\n")
		var page bytes.Buffer
		must.OK(t, r.page().Write(&page))
		for _, want := range []string{"Success criteria", "16 partitions", "Over time: memory", "go run ./bench load", "GiB of memory"} {
			if !strings.Contains(page.String(), want) {
				t.Errorf("the page has no %q", want)
			}
		}
		if n := strings.Count(page.String(), "<svg"); n != 3 {
			t.Errorf("the page has %d plots, want 3", n)
		}
		for _, bad := range []string{"<script", "http:", "https:", "src=", "s3cret"} {
			if strings.Contains(page.String(), bad) {
				t.Errorf("the page has %q", bad)
			}
		}
	}
}

// A long measurement of many processes makes no large page.
func TestPageStaysSmall(t *testing.T) {
	r := example(quiet)
	for second := range 3600 {
		for _, process := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			for _, name := range []string{"memory", "processor"} {
				i := slices.IndexFunc(r.Series, func(s *Series) bool { return s.Name == name && s.Of == process })
				if i < 0 {
					i = len(r.Series)
					r.Series = append(r.Series, &Series{Name: name, Of: process})
				}
				r.Series[i].Seconds, r.Series[i].Values = append(r.Series[i].Seconds, float64(second)), append(r.Series[i].Values, float64(second%100))
			}
		}
	}
	var page bytes.Buffer
	if err := r.page().Write(&page); err != nil || page.Len() > 300<<10 {
		t.Errorf("%d bytes: %v", page.Len(), err)
	}
}

func TestVerdicts(t *testing.T) {
	late := NewLatencies()
	late.Add(31 * time.Second)
	later := NewLatencies()
	later.Add(61 * time.Second)
	good := NewLatencies()
	good.Add(time.Second)
	for name, c := range map[string]struct {
		load Load
		fail string // the criteria that are not met
		pass string
	}{
		"all good":     {Load{PerMinute: 1000, Published: 1000, Folded: 1000, ToProfile: good, QueueDepth: []int{4999}}, "", "SC-002 SC-003 SC-004 SC-008"},
		"slow rate":    {Load{PerMinute: 999, Published: 1000, Folded: 1000, ToProfile: good}, "", "SC-002 SC-004 SC-008"},
		"late":         {Load{PerMinute: 1000, Published: 1, Folded: 1, ToProfile: late}, "SC-002", "SC-003 SC-004 SC-008"},
		"a minute":     {Load{PerMinute: 1000, Published: 1, Folded: 1, ToProfile: later}, "SC-002 SC-003", "SC-004 SC-008"},
		"lost":         {Load{PerMinute: 1000, Published: 1000, Folded: 999, ToProfile: good}, "SC-003 SC-004", "SC-002 SC-008"},
		"dead":         {Load{PerMinute: 1000, Published: 1000, Folded: 998, Dead: 2, ToProfile: good}, "SC-002 SC-004", "SC-003 SC-008"},
		"deep":         {Load{PerMinute: 1000, Published: 1, Folded: 1, ToProfile: good, QueueDepth: []int{0, 5000}}, "SC-008", "SC-002 SC-003 SC-004"},
		"one in 1,000": {Load{PerMinute: 1000, Published: 1000, Folded: 999, Dead: 1, ToProfile: good}, "", "SC-002 SC-003 SC-004 SC-008"},
	} {
		r := on(quiet, "load", nil)
		r.Load(c.load)
		var fail, pass []string
		for _, v := range r.Verdicts {
			switch v.Result {
			case Fail:
				fail = append(fail, v.ID)
			case Pass:
				pass = append(pass, v.ID)
			default:
				if v.Seen != "" || v.Why == "" {
					t.Errorf("%s: %+v", name, v)
				}
			}
		}
		if strings.Join(fail, " ") != c.fail || strings.Join(pass, " ") != c.pass || (r.Err() == nil) != (c.fail == "") {
			t.Errorf("%s: %v fail and %v pass; %v", name, fail, pass, r.Err())
		}
		// The same on a machine that others disturbed gives no verdict, and no error.
		r = on(Machine{Cores: 1, Load: 2.1}, "load", nil)
		r.Load(c.load)
		r.Expect(false, "missed")
		for _, v := range r.Verdicts {
			if v.Result != NotMeasured || v.Why != "disturbed" {
				t.Errorf("%s, disturbed: %+v", name, v)
			}
		}
		if r.Err() != nil || !r.Figures[0].Disturbed || !r.Latencies[0].Disturbed {
			t.Errorf("%s, disturbed: %v", name, r.Err())
		}
	}
}

// The first fail of a criterion stays, whatever comes later.
func TestFailStays(t *testing.T) {
	r := on(quiet, "scale", nil)
	r.Judge(SC006, true, "2 workers")
	r.Judge(SC006, false, "5 workers")
	r.Judge(SC006, true, "10 workers")
	if v := r.verdict(SC006); v.Result != Fail || v.Seen != "5 workers" {
		t.Errorf("%+v", v)
	}
}

func TestWatchSeesThisProcess(t *testing.T) {
	r := on(quiet, "test", nil)
	looks := make(chan struct{}, 1)
	stop := r.Watch(t.Context(), func() map[string]int {
		select {
		case looks <- struct{}{}:
		default:
		}
		return map[string]int{"test": os.Getpid(), "gone": 1 << 30}
	})
	for range 3 {
		<-looks
	}
	stop()
	stop()
	if len(r.Series) != 2 || r.Series[0].Of != "test" || r.Series[0].Values[0] <= 1 {
		t.Errorf("%d series", len(r.Series))
	}
}

// The name of a process may look like the end of one.
func TestUsageOfAnyName(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	must.OK(t, err)
	name := filepath.Join(t.TempDir(), "a) S 1 b")
	must.OK(t, os.Symlink(sleep, name))
	process := exec.Command(name, "60")
	must.OK(t, process.Start())
	defer process.Wait()
	defer process.Process.Kill()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		u, err := UsageOf(process.Process.Pid)
		switch {
		case err == nil && u.Resident > 0:
			return
		case err != nil, time.Now().After(until):
			t.Fatalf("%+v, %v", u, err)
		}
	}
}

func TestWriteSaysWhereThePageCannotGo(t *testing.T) {
	var out bytes.Buffer
	c := cli.Console{Streams: cli.Streams{Stdout: &out}}
	err := Flags{File: filepath.Join(t.TempDir(), "no folder", "x.html")}.Write(&c, on(quiet, "test", nil))
	if err == nil || !strings.Contains(out.String(), "2 cores") {
		t.Errorf("%v; %s", err, &out)
	}
}

// A page is written though the reader of the text has gone, and a missed target is still said.
func TestWriteKeepsThePage(t *testing.T) {
	out, in, err := os.Pipe()
	must.OK(t, err)
	out.Close()
	defer in.Close()
	c := cli.Console{Streams: cli.Streams{Stdout: in}}
	path := filepath.Join(t.TempDir(), "x.html")
	err = Flags{File: path}.Write(&c, example(quiet))
	if err == nil || !strings.Contains(err.Error(), "broken pipe") || !strings.Contains(err.Error(), "memory grew") {
		t.Error(err)
	}
	if page, err := os.ReadFile(path); len(page) == 0 {
		t.Error(err)
	}
}
