package rabbittest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"keyfold/internal/testserver/process"
)

// StartCluster runs nodes of a major version of RabbitMQ as one cluster that speaks the stream
// protocol too, and stops them at the test's end. Their port mapper goes with the first one's.
func StartCluster(t testing.TB, major, nodes int) (all []*Broker) {
	t.Helper()
	o := options{look: version(major), timeout: patient, streams: true}
	for range nodes {
		all = append(all, process.ForTest(t, func(dir string) (*Broker, error) { return launch(dir, o) }))
		o.first = all[0]
	}
	return all
}

// join gives the node what it needs to find the cluster's first one.
func (b *Broker) join() error {
	const name = ".erlang.cookie"
	cookie, err := os.ReadFile(filepath.Join(b.first.Dir, name))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.Dir, name), cookie, 0o400)
}

// clusterConfig are the lines of rabbitmq.conf that have a node join the first one when it is
// started for the first time.
func (b *Broker) clusterConfig() string {
	if b.first == nil {
		return ""
	}
	return fmt.Sprintf("cluster_formation.peer_discovery_backend = classic_config\n"+
		"cluster_formation.classic_config.nodes.1 = %s\ncluster_formation.classic_config.nodes.2 = %s\n", b.first.node, b.node)
}
