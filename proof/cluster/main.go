// Command cluster runs the manifests of deploy/kubernetes on Kubernetes' own API server, which .ci/kubernetes
// builds. All servers listen on the loopback, have their files in a folder of their own, and end with this process.
//
//	cluster manifests    applies them with strict validation, in a namespace under pod security "restricted", as
//	                     KEDA's definitions stand beside them. It needs etcd, kube-apiserver and kubectl.
//	cluster scaling      adds kube-controller-manager, KEDA and a RabbitMQ, and holds the number of workers against
//	                     the policy of scaling.yaml, with shorter windows.
//
// There are no nodes: no container runs. Scaling reports pods ready, or not, in the place of a kubelet.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

type cli struct {
	Tools     string        `required:"" type:"existingdir" help:"Folder of the programs, made by .ci/kubernetes."`
	Crds      string        `required:"" type:"existingdir" help:"KEDA's config/crd."`
	Kustomize string        `default:"deploy/kubernetes" type:"existingdir" help:"The manifests."`
	Timeout   time.Duration `default:"20m" help:"Give up after that."`

	Manifests manifestsCmd `cmd:"" help:"Apply the manifests."`
	Scaling   scalingCmd   `cmd:"" help:"Hold the number of workers against the policy."`
}

type (
	manifestsCmd struct{}
	scalingCmd   struct{}
)

func main() {
	var c cli
	command := kong.Parse(&c, kong.Name("cluster"), kong.UsageOnError())
	check := manifests
	if command.Command() == "scaling" {
		check = scaling
	}
	if err := run(os.Stdout, c, check); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, c cli, check func(context.Context, io.Writer, *plane, cli) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	p, err := newPlane(c.Tools)
	if err != nil {
		return err
	}
	defer p.stop()
	if err = p.start(ctx); err == nil {
		err = p.define(ctx, c.Crds)
	}
	if err == nil {
		err = check(ctx, out, p, c)
	}
	if err != nil {
		return fmt.Errorf("%w\nthe servers' logs are in %s", err, p.dir)
	}
	return os.RemoveAll(p.dir)
}
