// Package version says which build of keyfold runs.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"keyfold/engine/metric"
)

// Version is set by the linker in a release:
//
//	go build -ldflags "-X keyfold/internal/version.Version=v1.2.3"
var Version string

// Info describes a build.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "" where the build did not know it, as with `go run`
	Dirty    bool   `json:"dirty"`  // the checkout had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read describes the running program.
func Read() Info {
	build, _ := debug.ReadBuildInfo()
	return read(Version, build)
}

func read(linked string, build *debug.BuildInfo) Info {
	i := Info{Version: linked, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		if build.Main.Version != "(devel)" {
			i.Version = cmp.Or(i.Version, build.Main.Version)
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				i.Commit = s.Value
			case "vcs.modified":
				i.Dirty = s.Value == "true"
			}
		}
	}
	i.Version = cmp.Or(i.Version, "devel")
	return i
}

// ShortCommit returns the start of the commit, marked where it is not all of the
// build.
func (i Info) ShortCommit() string {
	commit := cmp.Or(i.Commit[:min(len(i.Commit), 12)], "unknown")
	if i.Dirty {
		commit += " (dirty)"
	}
	return commit
}

// String is one line for people.
func (i Info) String() string {
	return fmt.Sprintf("%s, commit %s, %s, %s", i.Version, i.ShortCommit(), i.Go, i.Platform)
}

// Register adds the build to a page of metrics.
func (i Info) Register(set *metric.Set) {
	set.Gauge(fmt.Sprintf("keyfold_build_info{version=%q,commit=%q,go=%q}", i.Version, i.ShortCommit(), i.Go),
		"The version, commit and Go version of this build; the value is 1.", func() float64 { return 1 })
}
