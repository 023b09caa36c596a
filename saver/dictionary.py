"""
The zstd dictionary of the packing mark `d`: what checkpoints of LangGraph and messages of LangChain look like.

Values in Redis need these very bytes to be read: they never change. A better dictionary is a second one, with a mark of
its own. What is most common stands last, where references to it are shortest.
"""

_PROSE = (
    "I'm sorry, but I can't find that. However, you could try one of these instead:\n\n1. **First**, make sure that t"
    "he following is right. If it does not work, please let me know which one you would like me to use, and I will lo"
    "ok into it.\n2. **Second**, this should be available from the other system as well, because it was changed befor"
    "e they were there. For example:\n\n```python\ndef main():\n    return None\n```\n\n```json\n{}\n```\n\n- **Note*"
    "*: when an error occurs, there is no need to do anything about it; it has been called with more than one argumen"
    "t and would have returned the same result. Here is what I found about your question: it is possible to have both"
    " of them at the same time, although some people think otherwise. What do you want to know? Can you help me with "
    "this? How can I get the number of them? Tell me more about that, please. Thanks! You're welcome! Is there anythi"
    "ng else I can help you with today? Let me know if you have any questions or need more information. https://www.e"
    "xample.com/ https://github.com/ .com .org .html between, through, during, without, against, another, different, "
    "information, important, ing the, tion of the, ed by the, s and the, that the, which is, with the, from the, will"
    " be, can be, has been, should be, must be, such as, as well as, one of the, in order to, is not, are not, if the"
    ", when the, for the, on the, to the, in the, of the, and the "
)

_TOOLS = (
    b"\xc7\xd9\x05\x94\xbclangchain_core.messages.tool\xabToolMessage\x89\xa7content\xa0\xb1additional_kwargs\x80\xb1"
    b"response_metadata\x80\xa4type\xa4tool\xa4name\xa6search\xa2id\xd9$toolu_01\xactool_call_id\xbdcall_\xa8artifact"
    b'\xc0\xa6status\xa7success\xa6status\xa5error\xb3model_validate_json{"type": "text", "text": "","index":0,"type"'
    b':"tool_use","input":{"query":"","name":"","url":"","title":"","content":"","results":[],"score":0.'
)

_ANSWER = (
    b"\xb1additional_kwargs\x81\xa7refusal\xc0\xb1response_metadata\x88\xabtoken_usage\x85\xb1completion_tokens\x01"
    b"\xadprompt_tokens\x01\xactotal_tokens\x01\xb9completion_tokens_details\x84\xbaaccepted_prediction_tokens\x00"
    b"\xacaudio_tokens\x00\xb0reasoning_tokens\x00\xbarejected_prediction_tokens\x00\xb5prompt_tokens_details\x82\xac"
    b"audio_tokens\x00\xadcached_tokens\x00\xabstop_reason\xa8end_turn\xadstop_sequence\xc0\xa5usage\xbbcache_creatio"
    b"n_input_tokens\xb7cache_read_input_tokens\xaamodel_name\xa6gpt-4o\xb1claude-\xaagemini-\xaemodel_provider\xa6op"
    b"enai\xa9anthropic\xb2system_fingerprint\xa3fp_\xa2id\xa9chatcmpl-\xacservice_tier\xa7default\xadfinish_reason"
    b"\xaatool_calls\xa4stop\xa8logprobs\xc0\xa4type\xa2ai\xa4name\xc0\xa2id\xd9*lc_run--\xd9)run--\xaatool_calls\x91"
    b"\x84\xa4name\xa6search\xa4args\x81\xa5query\xa0\xa2id\xbdcall_\xa4type\xa9tool_call\xb2invalid_tool_calls\x90"
    b"\xaeusage_metadata\x85\xacinput_tokens\x01\xadoutput_tokens\x01\xactotal_tokens\x01\xb3input_token_details\x82"
    b"\xa5audio\x00\xaacache_read\x00\xaecache_creation\xb4output_token_details\x82\xa5audio\x00\xa9reasoning\x00\xb3"
    b"model_validate_json"
)

_MESSAGES = (
    b"\xc7\xc9\x05\x94\xbelangchain_core.messages.system\xadSystemMessage\x86\xa7content\xbcYou are a helpful assista"
    b"nt. \xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa6system\xa4name\xc0\xa2id\xd9$\xb3model_valida"
    b"te_json\xc8\x01h\x05\x94\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xda\xb1additional_kwargs\x80"
    b"\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xd9$\xaatool_calls\x90\xb2invalid_tool_calls\x90\xaeu"
    b"sage_metadata\xc0\xb3model_validate_json\xc8\x01A\x05\x94\xbdlangchain_core.messages.human\xacHumanMessage\x86"
    b"\xa7content\xda\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xd9$\xb3mo"
    b"del_validate_json"
)

_WRITES = (
    b"\xafbranch:to:agent\xa4null\xc4\x00\xae__no_writes__\xaa__resume__\xad__interrupt__\xa9__error__\xa7__pregel_ta"
    b"sks\xb4~__pregel_push, \x92\x96\xd9$\x00\xb5~__pregel_pull, tools\xb5~__pregel_pull, model\xb5~__pregel_pull, a"
    b"gent\xafbranch:to:tools\xa4null\xc4\x00\x01\xa8messages\xa7msgpack\xc5\x91"
)

_CHECKPOINT = (
    b'{"__start__":"00000000000000000000000000000002.0.","__pregel_tasks":"","branch:to:tools":"","branch:to:agent":"'
    b'","thread_id":"","user_id":"","run_id":"","run_attempt":1,"langgraph_version":"1.","langgraph_api_url":"","assi'
    b'stant_id":"","graph_id":"agent","langgraph_host":"self-hosted","langgraph_plan":"","__interrupt__":{},"writes":'
    b'null,"checkpoint_ns":"","langgraph_auth_user_id":"","created_by":"system"}\x93\xd9$1f0\xd9{"source":"input","st'
    b'ep":-1,"parents":{}}\xd9{"source":"update","step":0,"parents":{}}{"v":4,"id":"1f0","ts":"2026-01-01T00:00:00.00'
    b'0000+00:00","channel_values":{"branch:to:model":null},"channel_versions":{"__start__":"000000000000000000000000'
    b'00000002.0.","messages":"00000000000000000000000000000001.0.","branch:to:model":"000000000000000000000000000000'
    b'01.0."},"versions_seen":{"__input__":{},"__start__":{"__start__":"00000000000000000000000000000001.0."},"model"'
    b':{"branch:to:model":"00000000000000000000000000000001.0."},"tools":{"branch:to:tools":"000000000000000000000000'
    b'00000003.0."},"agent":{"messages":"00000000000000000000000000000001.0."}},"updated_channels":["__start__","bran'
    b'ch:to:model","messages"],"pending_sends":[]}\xd9\'{"source":"loop","step":1,"parents":{}}msgpack\x00+'
)

FIRST = _PROSE.encode() + _TOOLS + _ANSWER + _WRITES + _CHECKPOINT + _MESSAGES
