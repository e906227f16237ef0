package main

import (
	"strconv"

	"github.com/alecthomas/kong"

	"keyfold/internal/cli"
	"keyfold/internal/settings"
)

// configCmd looks at the settings.
type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check all settings."`
	Show  configShowCmd  `cmd:"" help:"Show the settings in force, and where each is from."`
}

// configCheckCmd checks what every command checks, and the address to listen on.
type configCheckCmd struct {
	Addr string `name:"http-addr" env:"HTTP_ADDR" default:"127.0.0.1:7080" help:"Listen address of the HTTP API."`
}

// Check refuses an address that is not served.
func (c *configCheckCmd) Check(*app) error { return checkAddr(c.Addr) }

// Run tells that nothing was wrong.
func (c *configCheckCmd) Run(a *app) error {
	return a.Emit(map[string]bool{"valid": true}, func(w *cli.Text) { w.Line("The settings are valid.") })
}

// configShowCmd shows.
type configShowCmd struct{}

// Run prints the settings.
func (c *configShowCmd) Run(a *app, command *kong.Context) error {
	return a.EmitSettings(settings.List(command), map[string]string{
		"WORKER_SHARDS":   strconv.Itoa(a.config.Shard.Shards),
		"WORKER_PREFETCH": strconv.Itoa(a.config.Prefetch()),
	})
}
