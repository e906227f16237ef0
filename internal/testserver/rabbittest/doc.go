// Package rabbittest runs private RabbitMQ brokers for tests: the installed
// rabbitmq-server with its own folder, node name, ports, Erlang cookie and port
// mapper, so that nothing is shared with a system broker or another test
// binary. A broker can be killed, restarted on its data and put under alarms;
// [Proxy] breaks the network in front of it.
//
// Starting takes some seconds. [Shared] gives one broker per test binary, which
// [process.Main] stops, or with [Serve] one to all test binaries of a run, and [Broker.VHost]
// a fresh virtual host per test; [Start] gives a broker of one's own to tests that kill it,
// and [Own] one per test binary to tests that set what holds for all of it. They run the machine's RabbitMQ, or the one
// in the folder that KEYFOLD_TEST_RABBITMQ names. [SharedVersion] and [StartVersion] ask
// for RabbitMQ 3 or 4, and [SharedStreams] and [StartStreams] for one with the stream
// plugin. KEYFOLD_TEST_RABBITMQ_STRICT makes each RabbitMQ 4 as later versions are.
package rabbittest
