"""The graph of the demo: a shop assistant of a chat node, a tool node and a person who approves. It needs no model."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt

APPROVAL_FROM = 100


class Shopping(TypedDict):
    """What one thread remembers."""

    messages: Annotated[list[AnyMessage], add_messages]
    basket: NotRequired[dict[str, int]]


Assistant = CompiledStateGraph[Shopping, None, Shopping, Shopping]


def assistant(saver: BaseCheckpointSaver[str]) -> Assistant:
    """The graph, on a saver."""
    builder = StateGraph(Shopping)
    builder.add_node("chat", _chat)
    builder.add_node("approve", _approve)
    builder.add_node("stock", _stock)
    builder.add_edge(START, "chat")
    builder.add_conditional_edges("chat", _after_chat, ["approve", "stock", END])
    builder.add_edge("approve", "stock")
    builder.add_edge("stock", "chat")
    return builder.compile(checkpointer=saver)


def order(number: int, amount: int, article: str) -> Shopping:
    """What a customer says in a turn. Ids are chosen, so that a value that is read back can be compared whole."""
    return {"messages": [HumanMessage(f"{amount} {article}, please", id=f"order-{number}")]}


def remembered(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a thread, in a form to compare."""
    messages = [message.model_dump() for message in values.get("messages", ())]
    return {"messages": messages, "basket": dict(values.get("basket") or {})}


def _chat(state: Shopping) -> dict[str, Any]:
    last, basket = state["messages"][-1], state.get("basket") or {}
    id_ = f"chat-{len(state['messages'])}"
    if not isinstance(last, HumanMessage):
        held = ", ".join(f"{amount} {article}" for article, amount in sorted(basket.items()))
        return {"messages": [AIMessage(f"Your basket: {held or 'empty'}.", id=id_)]}
    amount, _, rest = str(last.content).partition(" ")
    call = {"name": "stock", "args": {"amount": int(amount), "article": rest.partition(",")[0]}, "id": f"call-{id_}"}
    return {"messages": [AIMessage("I look into the stock.", id=id_, tool_calls=[call])]}


def _after_chat(state: Shopping) -> str:
    last = state["messages"][-1]
    if not isinstance(last, AIMessage) or not last.tool_calls:
        return END
    return "approve" if last.tool_calls[0]["args"]["amount"] >= APPROVAL_FROM else "stock"


def _approve(state: Shopping) -> dict[str, Any]:
    call = _call(state)
    if interrupt({"approve": call["args"]}) != "yes":
        raise ValueError("the demo always approves")
    return {}


def _stock(state: Shopping) -> dict[str, Any]:
    call = _call(state)
    amount, article = call["args"]["amount"], call["args"]["article"]
    basket = dict(state.get("basket") or {})
    basket[article] = basket.get(article, 0) + amount
    told = ToolMessage(f"{amount} {article} reserved", tool_call_id=call["id"], id=f"stock-{len(state['messages'])}")
    return {"messages": [told], "basket": basket}


def _call(state: Shopping) -> Any:
    last = state["messages"][-1]
    if not isinstance(last, AIMessage):
        raise TypeError("only the chat node comes before this one")
    return last.tool_calls[0]
