"""What all clients of a process share. Java: MQClientInstance, MQClientAPIImpl.

Connections to brokers (`connections`), name servers and asking them (`name_servers`), routes as they are known
(`routes`) and asking for new ones (`route_updates`), heartbeats, what brokers ask of a client (`inbound`), the timer of
rebalances, names with and without their namespace (`namespaced`), and requests that wait for another client's reply
(`pending_requests`). Nothing here knows how to send or to consume: a client joins as a member (`members`) and is told
when to act. Imported by every room above; imports only the floor of `client`. A request leaves by
`runtime.ClientRuntime`, `connections` carries it; what a broker asks comes in by `inbound`.
"""
