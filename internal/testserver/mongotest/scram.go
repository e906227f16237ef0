package mongotest

import (
	"github.com/xdg-go/scram"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

const scramMechanism = "SCRAM-SHA-256"

// credentials are what the one user of a server proves its identity with.
type credentials struct{ server *scram.Server }

// newCredentials returns nil without a user: then nothing needs authentication,
// and no client can authenticate.
func newCredentials(user, password string) (*credentials, error) {
	if user == "" {
		return nil, nil
	}
	client, err := scram.SHA256.NewClient(user, password, "")
	if err != nil {
		return nil, err
	}
	stored, err := client.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "mongotest", Iters: 4096})
	if err != nil {
		return nil, err
	}
	server, err := scram.SHA256.NewServer(func(name string) (scram.StoredCredentials, error) {
		if name != user {
			return scram.StoredCredentials{}, errNoUser
		}
		return stored, nil
	})
	return &credentials{server}, err
}

var errNoUser = fail(codeAuthenticationFailed, "Authentication failed.")

func saslStart(r *request) error {
	mechanism, _ := r.field("mechanism").StringValueOK()
	if r.server.users == nil || mechanism != scramMechanism {
		return errNoUser
	}
	r.conn.conversation = r.server.users.server.NewConversation()
	return saslStep(r)
}

func saslContinue(r *request) error {
	if r.conn.conversation == nil {
		return fail(17, "No SASL session state found")
	}
	return saslStep(r)
}

// saslStep takes the conversation one message further. A wrong password shows at
// the second.
func saslStep(r *request) error {
	_, payload, _ := r.field("payload").BinaryOK()
	conversation := r.conn.conversation
	answer := ""
	if !conversation.Done() {
		var err error
		if answer, err = conversation.Step(string(payload)); err != nil {
			r.conn.conversation = nil
			return errNoUser
		}
	}
	r.conn.authenticated = conversation.Valid()
	r.reply.number("conversationId", 1)
	r.reply.boolean("done", conversation.Done())
	r.reply.buf = bsoncore.AppendBinaryElement(r.reply.buf, "payload", 0, []byte(answer))
	return nil
}
