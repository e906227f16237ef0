package version

import (
	"runtime/debug"
	"strings"
	"testing"

	"keyfold/engine/metric"
)

func TestBuilds(t *testing.T) {
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "fa5f603dc5222b0c1bcb"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		linked string
		build  *debug.BuildInfo
		want   string
	}{
		{"", nil, "devel, commit unknown, "},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel, commit unknown, "},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}, Settings: vcs}, "v0.1.0, commit fa5f603dc522 (dirty), "},
		{"v1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}, Settings: vcs[:1]}, "v1.2.3, commit fa5f603dc522, "},
	} {
		got := read(c.linked, c.build).String()
		if !strings.HasPrefix(got, c.want) || !strings.Contains(got, ", go1.") || !strings.Contains(got, "/") {
			t.Errorf("got %q, want it to start with %q", got, c.want)
		}
	}
}

func TestMetric(t *testing.T) {
	var set metric.Set
	Info{Version: "v1", Commit: "abc", Dirty: true, Go: "go1.26"}.Register(&set)
	var out strings.Builder
	set.WritePrometheus(&out)
	if want := `keyfold_build_info{version="v1",commit="abc (dirty)",go="go1.26"} 1`; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%s", &out)
	}
}
