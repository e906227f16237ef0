package causes

import (
	"slices"
	"strings"
)

// ID names a cause. It is the anchor of its section in docs/RUNBOOK.md.
type ID string

// Causes.
const (
	Refused          ID = "connection-refused"
	Unresolved       ID = "host-name-not-resolved"
	NoAnswer         ID = "no-answer-in-time"
	Lost             ID = "connection-ended"
	Stopping         ID = "starting-or-stopping"
	ReadOnly         ID = "no-writes-here"
	Expired          ID = "certificate-expired"
	OtherHost        ID = "certificate-of-another-host"
	UnknownAuthority ID = "certificate-of-an-unknown-authority"
	Unfit            ID = "certificate-unfit"
	NoTLS            ID = "no-tls-at-this-port"
	NeedsTLS         ID = "tls-needed"
	Handshake        ID = "tls-handshake-refused"
	Credentials      ID = "credentials-refused"
	Certificate      ID = "client-certificate-refused"
	Rights           ID = "right-missing"
	Missing          ID = "not-there"
	Settings         ID = "settings-refused"
	Alarm            ID = "publishing-blocked"
	Connections      ID = "limit-of-connections"
	Channels         ID = "limit-of-channels"
	Files            ID = "limit-of-file-descriptors"
	Rate             ID = "limit-of-the-rate"
	Quota            ID = "quota-spent"
	Memory           ID = "out-of-memory"
	Disk             ID = "disk-full"
	Failing          ID = "requests-fail"
	Other            ID = "cause-unknown"
)

// row is a cause's line of the table. Of the texts, {server} and {setting} are the server's
// name and the setting with its address, and {said} are the server's own words.
type row struct {
	id       ID
	sentence string            // what is wrong
	cure     string            // what to do
	cures    map[string]string // by the server's name, where it is another
	lasts    bool              // no time ends it: a first start does not wait for it
}

// Lasts reports whether no time ends a cause: a first start does not wait for it.
func (id ID) Lasts() bool { return rowOf(id).lasts }

// Reason is the reason of errors with this cause.
func (id ID) Reason() string { return strings.ReplaceAll(string(id), "-", "_") }

func rowOf(id ID) row {
	for _, r := range table {
		if r.id == id {
			return r
		}
	}
	return rowOf(Other)
}

var table = slices.Concat(reachTable, accessTable, limitTable)

var reachTable = []row{
	{
		id: Refused, sentence: "{server} does not listen at its address",
		cure: "check that it runs, and that {setting} has its host and port",
		cures: map[string]string{
			"RabbitMQ's streams":    "check that the plugin rabbitmq_stream runs (rabbitmq-plugins enable rabbitmq_stream), and that {setting} has its host and port (mostly 5552)",
			"RabbitMQ's management": "check that the plugin rabbitmq_management runs, and that {setting} has its host and port",
		},
	}, {
		id: Unresolved, sentence: "no address is known for the host of {server}",
		cure: "correct the host in {setting}, or check that the name service knows it",
	}, {
		id: NoAnswer, sentence: "{server} gives no answer in time",
		cure: "check that it runs and is not overloaded, that no firewall is in between, and that {setting} has its host and port",
		cures: map[string]string{
			"RabbitMQ": "check that it runs and is not overloaded, in a cluster that more than half of the nodes run, that no firewall is in between, and that {setting} has its host and port",
			"Redis":    "check that it runs and is not overloaded; where it never answers, check that {setting} has its host and port, and that this port takes TLS, or write redis://",
		},
	}, {
		id: Lost, sentence: "{server} ended the connection",
		cure: "check that it runs and what its log says; where it never answers, see whether this port takes TLS and whether {setting} asks for it",
		cures: map[string]string{
			// Redis never says that it expected TLS, and its alert may be lost with the connection.
			"Redis": "check that it runs, that it has fewer clients than maxclients, and what its log says; where it never answers: for a port that takes TLS write rediss:// in {setting}, and the server must not ask for client certificates (tls-auth-clients no)",
		},
	}, {
		id: Stopping, sentence: "{server} is starting or stopping",
		cure: "wait until it has started; where it does not, see its log",
	}, {
		id: ReadOnly, sentence: "{server} takes no writes",
		cure: "name the server that takes writes in {setting}, and check that there is one",
		cures: map[string]string{
			"MongoDB": "check that the replica set has a primary (rs.status())",
		},
	}, {
		id: Failing, sentence: "{server} fails at requests",
		cure: "see its log, or ask its operator",
	}, {
		id: Other, sentence: "{server} cannot be used",
		cure: "see what the error says, that the server runs, and that {setting} is right",
	},
}

var accessTable = []row{
	{
		id: Expired, lasts: true, sentence: "the certificate of {server} has expired, or is not valid yet",
		cure: "give the server a certificate that is valid today, and check that the clocks of both machines are right",
	}, {
		id: OtherHost, lasts: true, sentence: "the certificate of {server} is of another host",
		cure: "{setting} must name the host as its certificate does, or the server needs a certificate with the host of {setting}",
	}, {
		id: UnknownAuthority, lasts: true, sentence: "the certificate of {server} is signed by an authority that this machine does not know",
		cure: "set SSL_CERT_FILE to the PEM file of the authority that signed it",
		cures: map[string]string{
			"PostgreSQL":         "add sslrootcert=FILE to {setting}, or set SSL_CERT_FILE, with the PEM file of the authority that signed it",
			"MongoDB":            "add tlsCAFile=FILE to the options of {setting}, or set SSL_CERT_FILE, with the PEM file of the authority that signed it",
			"RabbitMQ":           "add ?cacertfile=FILE to {setting}, or set SSL_CERT_FILE, with the PEM file of the authority that signed it",
			"RabbitMQ's streams": "add ?cacertfile=FILE to {setting}, or set SSL_CERT_FILE, with the PEM file of the authority that signed it",
		},
	}, {
		id: Unfit, lasts: true, sentence: "the certificate of {server} cannot be used",
		cure: "the server needs another certificate: the error says what is wrong with this one",
	}, {
		id: NoTLS, lasts: true, sentence: "{server} takes no TLS at this port",
		cure: "name its TLS port in {setting}, or have {setting} ask for no TLS",
		cures: map[string]string{
			"Redis":              "name its TLS port in {setting}, or write redis://",
			"RabbitMQ":           "name its TLS port in {setting} (mostly 5671), or write amqp://",
			"RabbitMQ's streams": "name its TLS port in {setting} (mostly 5551), or write rabbitmq-stream://",
			"PostgreSQL":         "set ssl=on in postgresql.conf, or have {setting} ask for no TLS (sslmode=disable)",
			"MariaDB or MySQL":   "give the server a certificate (ssl_cert, ssl_key), or take tls= out of {setting}",
			"the embedding API":  "write http:// in {setting}, or name its TLS port",
		},
	}, {
		id: NeedsTLS, lasts: true, sentence: "{server} takes nothing but TLS at this port",
		cure: "have {setting} ask for TLS",
		cures: map[string]string{
			"RabbitMQ":           "write amqps:// in {setting}, or name its port without TLS (mostly 5672)",
			"RabbitMQ's streams": "write rabbitmq-stream+tls:// in {setting}, or name its port without TLS (mostly 5552)",
			"MariaDB or MySQL":   "add tls=true to the parameters of {setting}",
			"the embedding API":  "write https:// in {setting}",
		},
	}, {
		id: Handshake, lasts: true, sentence: "{server} refuses the TLS handshake",
		cure: "it must take TLS 1.2 or newer, and must not ask for a client certificate, or {setting} must name one",
		cures: map[string]string{
			"RabbitMQ":           "where it asks for a client certificate, certfile and keyfile in {setting} must name one that is valid today and that the broker's authority (ssl_options.cacertfile) has signed; it must take TLS 1.2 or newer",
			"RabbitMQ's streams": "where it asks for a client certificate, certfile and keyfile in {setting} must name one that is valid today and that the broker's authority (ssl_options.cacertfile) has signed; it must take TLS 1.2 or newer",
			"Redis":              "it must not ask for client certificates (tls-auth-clients no, or optional) and must take TLS 1.2 or newer",
		},
	}, {
		id: Credentials, lasts: true, sentence: "{server} refuses user or password",
		cure: "check the user and the password in {setting}",
		cures: map[string]string{
			"MongoDB":               "check the user, the password and authSource in {setting}",
			"Redis":                 "set the right user and password in {setting}",
			"PostgreSQL":            "check the user and the password in {setting}, and the server's pg_hba.conf",
			"MariaDB or MySQL":      "check the user, the password and the host they are allowed from: {setting}; where the server or the user demands TLS, add tls=true",
			"the embedding API":     "set OPENAI_API_KEY to a key this service knows",
			"RabbitMQ's management": "name a user with the tag monitoring, and its password, in {setting}",
		},
	}, {
		id: Certificate, lasts: true, sentence: "{server} takes no account from the client certificate (auth_mechanism=external)",
		cure: "certfile and keyfile in {setting} must name a certificate whose name is a user: its CN with ssl_cert_login_from = common_name, its whole subject without; the broker must run the plugin rabbitmq_auth_mechanism_ssl and have EXTERNAL among its auth_mechanisms",
	}, {
		id: Rights, lasts: true, sentence: "{server} denies a right",
		cure: "grant the right to the user of {setting}",
		cures: map[string]string{
			"RabbitMQ":           "check the user's permissions (rabbitmqctl set_permissions)",
			"RabbitMQ's streams": "check the user's permissions (rabbitmqctl set_permissions)",
			"MongoDB":            "grant the user of {setting} the role readWrite on the database",
			"Redis":              "the user needs GET, MGET and SET on embeddings:*, and SELECT for a database number",
			"PostgreSQL":         "GRANT it to the user of {setting}: SELECT, INSERT, UPDATE and DELETE on keyfold's tables, and USAGE on their schema; setup needs CREATE on it too, and to own the tables",
			"MariaDB or MySQL":   "grant the user SELECT, INSERT, UPDATE and DELETE on this database (`keyfold setup` needs CREATE, ALTER, INDEX and REFERENCES too)",
			"SQLite":             "check that the folder of {setting} exists and that this user may write in it",
			"the embedding API":  "use a key in OPENAI_API_KEY that may call the model of EMBEDDING_MODEL, from a place the service serves",
		},
	}, {
		id: Missing, lasts: true, sentence: "{server} does not have what is asked for",
		cure: "correct {setting}",
		cures: map[string]string{
			"RabbitMQ":           "check the virtual host in {setting} (/ is written %2F), and the user's permissions (rabbitmqctl set_permissions)",
			"RabbitMQ's streams": "check the virtual host in {setting} (/ is written %2F), and the user's permissions (rabbitmqctl set_permissions)",
			"PostgreSQL":         "create the database (CREATE DATABASE name ENCODING 'UTF8'), or correct its name in {setting}; then run setup",
			"MariaDB or MySQL":   "create the database (CREATE DATABASE name CHARACTER SET utf8mb4), or correct its name in {setting}; then run `keyfold setup`",
			"SQLite":             "name another file in {setting}: this one is no SQLite database",
			"Redis":              "master_name in {setting} must be the name that the sentinels monitor",
			"the embedding API":  "check {setting} (it mostly ends in /v1) and that the service has the model of EMBEDDING_MODEL",
		},
	}, {
		id: Settings, lasts: true, sentence: "{server} refuses the settings",
		cure: "check {setting}",
		cures: map[string]string{
			"Redis":             "it is a cluster: add ?addr=host:port to {setting}, if need be the same address again",
			"the embedding API": "check EMBEDDING_MODEL and EMBEDDING_DIMENSIONS against what the service knows",
		},
	},
}

var limitTable = []row{
	{
		id: Alarm, sentence: "{server} blocks publishing: {said}",
		cure: "free its memory or its disk, or raise the limit (rabbitmq-diagnostics alarms says which)",
	}, {
		id: Connections, sentence: "{server} takes no more connections",
		cure: "end connections that are not needed, or raise the server's limit",
		cures: map[string]string{
			"RabbitMQ":         "end connections that are not needed, or raise the limit (max-connections of the virtual host or the user, connection_max of the node)",
			"PostgreSQL":       "end connections that are not needed, put a pooler in front, or raise max_connections (or the user's or the database's CONNECTION LIMIT)",
			"MariaDB or MySQL": "end connections that are not needed, or raise max_connections (or the user's MAX_USER_CONNECTIONS)",
			"Redis":            "end clients that are not needed, or raise maxclients",
		},
	}, {
		id: Channels, sentence: "{server} opens no more channels",
		cure: "raise channel_max of RabbitMQ, or max-channels of the user",
	}, {
		id: Files, sentence: "this process may open no more files and connections",
		cure: "raise its limit of file descriptors (ulimit -n, LimitNOFILE= of systemd) and restart it",
	}, {
		id: Rate, sentence: "{server} limits how often it may be asked",
		cure: "run fewer processes that ask it, or have its limit raised",
		cures: map[string]string{
			"MariaDB or MySQL":  "raise the user's limits (ALTER USER ... WITH MAX_QUERIES_PER_HOUR, MAX_UPDATES_PER_HOUR, MAX_CONNECTIONS_PER_HOUR, MAX_USER_CONNECTIONS)",
			"the embedding API": "run fewer workers, or have the service raise the limit of the account of OPENAI_API_KEY",
		},
	}, {
		id: Quota, sentence: "{server} takes no requests: the account's quota is spent",
		cure: "raise it or set another OPENAI_API_KEY",
	}, {
		id: Memory, sentence: "{server} is out of memory",
		cure: "give the server more memory, or raise its limit",
		cures: map[string]string{
			"Redis": "raise maxmemory, or set maxmemory-policy to allkeys-lru",
		},
	}, {
		id: Disk, sentence: "{server} has no room on its disk",
		cure: "free or enlarge the disk of the server",
		cures: map[string]string{
			"SQLite": "free or enlarge the disk that has the file of {setting}",
			"Redis":  "free or enlarge the server's disk; its log says why it cannot save",
		},
	},
}
