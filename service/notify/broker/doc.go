// Package broker has all that RabbitMQ is told of notifications.
//
//	Urgent, Bulk, Deliveries  names of exchanges and queues; Setup declares them
//	EventMessage              the message of an event, as services publish it
//	Events                    chunks of a consumer: messages become deliveries
//	Reports                   the same of delivery reports, which are applied at once
//	Describe                  what logs and dead letters name a message by
//	Sender                    publishes dispatches with confirms
package broker
